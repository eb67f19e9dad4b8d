import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from '../support/ask.js'
import { GatewayProcess } from '../support/gateway/gateway-process.js'

/*
 * Measures how long other clients wait while an attacker attacks a gateway: `scripts/bench --only attacks`. The gateway
 * has the limits of the product. The gateway and the attackers are separate processes.
 */

const seconds = 15
const password = 'correct horse battery'

interface Latencies {
  readonly read: number[]
  readonly login: number[]
}

/** Prints the p50 and p99 of the request times of an honest client, during each attack and without an attack. */
export async function benchAttacks(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'btestbench-attacks-'))
  const gateway = await GatewayProcess.create(directory)
  try {
    gateway.start()
    await gateway.ready()
    const keyOf = async (scopes: string[]): Promise<string> =>
      (await gateway.request('POST', '/api-keys', { body: { name: scopes.join(), scopes } })).body.data.key as string
    await gateway.request('POST', '/admins', { body: { username: 'ada', password } })
    const limited = await keyOf(['container:*', 'task:read'])
    for (const [kind, key] of [
      ['nothing', ''],
      ['h2c', ''],
      ['pipeline', '4'],
      ['pipeline', '40'],
      ['audit', limited],
      ['streams', limited],
      ['passwords', gateway.adminKey],
      ['logins', ''],
    ] as const)
      await measure(gateway, kind, key)
  } finally {
    await gateway.kill()
    rmSync(directory, { recursive: true, force: true })
  }
}

async function measure(gateway: GatewayProcess, kind: string, key: string): Promise<void> {
  const attackers = kind === 'nothing' ? undefined : attack(kind, gateway.port, key)
  try {
    await delay(1000)
    const { read, login } = await askFor(gateway)
    console.log(
      `${`${kind} ${kind === 'pipeline' ? key : ''}`.padEnd(12)} GET: p50 ${at(read, 0.5)} ms, p99 ${at(read, 0.99)} ms (${read.length}); ` +
        `log in: p50 ${at(login, 0.5)} ms, p99 ${at(login, 0.99)} ms (${login.length})`,
    )
  } finally {
    if (attackers) {
      attackers.kill('SIGKILL')
      await once(attackers, 'exit')
    }
  }
}

function attack(kind: string, port: number, key: string): ChildProcess {
  const file = join(import.meta.dirname, 'attackers-main.ts')
  return spawn(process.execPath, ['--import', 'tsx', file, kind, String(port), key], { stdio: 'inherit' })
}

/** Sends the requests of an honest client, one after another, with pauses. @returns the durations of the requests in ms */
async function askFor(gateway: GatewayProcess): Promise<Latencies> {
  const client = createClient()
  const measured: Latencies = { read: [], login: [] }
  const url = `http://127.0.0.1:${gateway.port}/api/v1`
  const timed = async (into: number[], path: string, options: Parameters<typeof client.send>[1]) => {
    const begun = performance.now()
    const { body } = await client.send(`${url}${path}`, options)
    for await (const _ of body);
    into.push(performance.now() - begun)
  }
  const login = JSON.stringify({ username: 'ada', password })
  for (const end = performance.now() + seconds * 1000; performance.now() < end; await delay(20)) {
    await timed(measured.read, '/containers', { headers: { 'x-api-key': gateway.adminKey } })
    if (measured.read.length % 10 === 0)
      await timed(measured.login, '/login', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: login,
      })
  }
  client.close()
  return measured
}

function at(all: readonly number[], share: number): string {
  const sorted = all.toSorted((a, b) => a - b)
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1)
}
