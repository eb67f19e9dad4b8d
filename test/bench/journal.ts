import { status } from '@grpc/grpc-js'
import { execFile, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse, stringify } from 'yaml'
import { findIdentity } from '../../agent/enrollment/identity.js'
import { connectAgent } from '../../gateway/fleet/agents/agent-connection.js'
import { ensureAuthority } from '../../gateway/pki/authority.js'
import { waitFor } from '../support/wait.js'
import type { BerthApi } from './berth-api.js'
import { figure, median, type Figure } from './figures.js'
import { processorPercent, rssMb } from './idle.js'

const run = promisify(execFile)
const atOnce = 8
const idleMs = 20_000
const settleMs = 10_000

export interface JournalOptions {
  readonly instance: string
  readonly guestCounts: readonly number[]
  readonly rounds: number
}

/** Measures the cost of stopped guests in the agent's journal: idle memory and CPU time, and time of a restart. */
export async function benchJournal(api: BerthApi, options: JournalOptions): Promise<Figure[]> {
  const figures: Figure[] = []
  const names: string[] = []
  try {
    await sellWithoutBounds(options.instance)
    for (const count of options.guestCounts) {
      await createUntil(api, names, count)
      await delay(settleMs)
      const pid = readPid(options.instance)
      const percent = await processorPercent(pid, idleMs)
      figures.push(figure(`${count} guests: idle processor`, '% of one', { Berth: percent }))
      figures.push(figure(`${count} guests: resident memory`, 'MB', { Berth: rssMb(pid) }))
      figures.push(figure(`${count} guests: start until the first answer`, 'ms', { Berth: await benchStart(options) }))
    }
    return figures
  } catch (error) {
    console.error(error) // the cleanup may fail for the same reason and hide this error
    throw error
  } finally {
    await inLanes(names, (name) => api.call('DELETE', `/containers/${name}/delete`))
    for (const name of names) await api.untilGone(name, 120_000)
  }
}

/** Removes the limits on overcommitment. This machine is too small to run so many guests, but they stay stopped. */
async function sellWithoutBounds(instance: string): Promise<void> {
  const file = `/etc/berth-${instance}/gateway.yaml`
  const config = parse(readFileSync(file, 'utf8')) as object
  writeFileSync(file, stringify({ ...config, placement: { ram_ratio: 0, disk_ratio: 0 } }))
  await run('scripts/up', ['--instance', instance])
}

async function createUntil(api: BerthApi, names: string[], count: number): Promise<void> {
  const more = Array.from({ length: count - names.length }, (_, n) => `journal-${names.length + n}`)
  await inLanes(more, async (name) => {
    const body = { name, template_id: 'debian-12', vcpu: 1, ram_mb: 256, disk_gb: 2, start: false }
    const { task_id: task } = await api.call<{ task_id: string }>('POST', '/containers', body)
    names.push(name)
    await api.untilDone(task)
  })
}

/** Measures a restart of the agent after kill -9, until its first answer. @returns the median of the rounds in ms */
async function benchStart({ instance, rounds }: JournalOptions): Promise<number> {
  const ask = await connect(`/etc/berth-${instance}`)
  const times: number[] = []
  let pid = readPid(instance)
  const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
  for (let round = 0; round < rounds; round++) {
    process.kill(pid, 'SIGKILL')
    await waitFor(async () => !(await ask()), { what: 'the agent to be gone' })
    const begun = performance.now()
    const child = spawn(program, args, { stdio: 'ignore', detached: true })
    await waitFor(ask, { intervalMs: 10, what: 'the agent’s first answer' })
    times.push(performance.now() - begun)
    pid = child.pid!
  }
  process.kill(pid, 'SIGTERM')
  await waitFor(async () => !(await ask()), { what: 'the agent to be gone' })
  await run('scripts/up', ['--instance', instance])
  return median(times)
}

function readPid(instance: string): number {
  return Number(readFileSync(`/run/berth-${instance}/agent.pid`, 'utf8').split(' ')[0])
}

/** @returns a function that requests an unknown operation and resolves with whether the agent answers */
async function connect(configDirectory: string): Promise<() => Promise<boolean>> {
  const read = (name: string) => parse(readFileSync(join(configDirectory, `${name}.yaml`), 'utf8')) as Config
  const [agent, gateway] = [read('agent'), read('gateway')]
  const authority = await ensureAuthority(join(gateway.state_dir, 'pki'), 3650)
  const target = {
    hostId: findIdentity(join(agent.state_dir, 'identity'))!.hostId,
    address: agent.listen,
    caPems: [authority.caPem],
    leaf: await authority.issue({ role: 'gateway' }, 3_600_000),
    isRevoked: () => false,
    silenceMs: 15_000,
  }
  return () =>
    new Promise((resolve) => {
      const connection = connectAgent(target)
      connection.operations.getOperation({ id: 'none' }, (error) => {
        connection.close()
        resolve(error?.code === status.NOT_FOUND)
      })
    })
}

interface Config {
  readonly state_dir: string
  readonly listen: string
}

async function inLanes(items: readonly string[], work: (item: string) => Promise<unknown>): Promise<void> {
  const left = [...items]
  const lane = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
}
