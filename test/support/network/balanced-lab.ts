import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { appendFileSync, closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { request, type RequestOptions } from 'node:https'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parse } from 'yaml'
import { GatewayProcess, shareState } from '../gateway/gateway-process.js'
import { startTestRedis, type TestRedis } from '../gateway/redis.js'
import { nodeArguments } from '../programs.js'
import { scratchDirectory } from '../scratch.js'
import { sh } from '../sh.js'
import { waitFor } from '../wait.js'

/** The addresses of the examples in docs/examples. */
export const sharedAddress = '192.0.2.10'
const machines = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const
export const clients = ['198.51.100.7', '198.51.100.8'] as const
const agentAddress = '127.0.0.1:8070'

export interface BalancedAnswer {
  readonly status: number
  readonly text: string
}

/**
 * Three gateways on one Redis behind a real HAProxy, and an agent with a guest. HAProxy has the configuration of the
 * documentation. Only the path of the certificate and the Redis of the gateways differ. The process of the test must be
 * in a network namespace of its own, because this namespace gets the addresses of the documentation.
 */
export class BalancedLab {
  readonly gateways: GatewayProcess[] = []
  readonly #children: ChildProcess[] = []
  readonly #scratch = scratchDirectory('btest-balanced')
  #redis: TestRedis | undefined

  readonly url = `https://${sharedAddress}`

  async start(): Promise<void> {
    addAddresses()
    this.#redis = await startTestRedis({ extraConfig: ['bind 127.0.0.1', 'port 6379'] })
    for (const machine of machines) await this.#addGateway(machine)
    await this.#startProxy()
    await this.#startAgent()
  }

  async stop(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL')
    await Promise.all(this.gateways.map((gateway) => gateway.kill()))
    await this.#redis?.stop()
    this.#scratch.wipe()
  }

  async signalStore(signal: NodeJS.Signals): Promise<void> {
    process.kill(await this.#redis!.pid(), signal)
  }

  get headers(): Record<string, string> {
    return { 'x-api-key': this.gateways[0]!.adminKey, 'content-type': 'application/json' }
  }

  /** Sends a request through HAProxy as the administrator. */
  ask(method: string, path: string, options: RequestOptions & { body?: object } = {}): Promise<BalancedAnswer> {
    const { body, headers = {}, ...others } = options
    return new Promise((resolve, reject) => {
      const all = { ...this.headers, ...(headers as Record<string, string>) }
      const sent = request(`${this.url}/api/v1${path}`, { method, headers: all, ...others }, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text })).on('error', reject)
      })
      sent.on('error', reject).end(body && JSON.stringify(body))
    })
  }

  /** Gateways that have answered requests, by the log of HAProxy since `offset`. */
  answering(offset: number): Set<string> {
    return new Set(this.log.slice(offset).match(/ berth\/gateway-\d /g))
  }

  get log(): string {
    return readFileSync(this.#logFile, 'utf8')
  }

  /** Waits until HAProxy has reported a state of a gateway since `offset`. */
  async waitForState(index: number, state: 'UP' | 'DOWN', offset = 0): Promise<void> {
    const line = new RegExp(`Server berth/gateway-${index + 1} is ${state}`)
    await waitFor(() => line.test(this.log.slice(offset)), {
      what: () => `gateway ${index + 1} is ${state}: ${this.log.slice(-2000)}`,
    })
  }

  get #logFile(): string {
    return join(this.#scratch.path, 'haproxy.log')
  }

  async #addGateway(machine: string): Promise<void> {
    const example = readFileSync('docs/examples/gateway-behind-haproxy.yaml', 'utf8')
    const config = parse(example.replaceAll(/(listen: )192\.0\.2\.1:/g, `$1${machine}:`)) as object
    const redis = { url: 'redis://127.0.0.1:6379' }
    const directory = join(this.#scratch.path, machine)
    const gateway = await GatewayProcess.create(directory, machine, { ...config, redis })
    const [first] = this.gateways
    if (first) shareState(first, gateway)
    this.gateways.push(gateway)
    gateway.start()
    await waitFor(async () => (await readiness(machine)) === 200, { what: () => gateway.logTail() })
  }

  async #startProxy(): Promise<void> {
    const file = exampleProxyConfig(this.#scratch.path)
    appendFileSync(this.#logFile, '')
    const log = openSync(this.#logFile, 'a')
    this.#children.push(spawn('/usr/sbin/haproxy', ['-db', '-f', file], { stdio: ['ignore', log, log] }))
    closeSync(log)
    await waitFor(
      () =>
        this.ask('GET', '/dashboard').then(
          ({ status }) => status === 200,
          () => false,
        ),
      {
        what: () => `HAProxy: ${this.log}`,
      },
    )
  }

  /** Lets an agent with one guest join through HAProxy. */
  async #startAgent(): Promise<void> {
    const { text } = await this.ask('POST', '/hosts', { body: { name: 'host-a', address: agentAddress } })
    const token = (JSON.parse(text) as { data: { join_token: string } }).data.join_token
    const options = ['--identity', join(this.#scratch.path, 'agent'), '--guests', '1', '--listen', agentAddress]
    const args = nodeArguments('test/support/memory/lab-agent-main.ts', '--join', token, ...options)
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#children.push(child)
    await new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve))
    for (const machine of machines) {
      const list = async (): Promise<string> => {
        const reply = await fetch(`http://${machine}:8080/api/v1/containers`, { headers: this.headers })
        return reply.text()
      }
      await waitFor(async () => (await list()).includes('sim-1'), { what: 'the guest' })
    }
  }
}

async function readiness(machine: string): Promise<number> {
  return fetch(`http://${machine}:8080/readyz`).then(
    ({ status }) => status,
    () => 0,
  )
}

function addAddresses(): void {
  // A new network namespace has its loopback interface down. Only a new namespace may get the addresses.
  if (sh('ip', '-oneline', 'link', 'show', 'lo', 'up') !== '')
    throw new Error('run this file with scripts/test, or in a network namespace: unshare --net npx mocha …')
  sh('ip', 'link', 'set', 'lo', 'up')
  for (const address of [...machines, sharedAddress, ...clients])
    sh('ip', 'address', 'add', `${address}/32`, 'dev', 'lo')
}

/** Writes the example configuration of HAProxy and a certificate into a directory. @returns path of the configuration */
export function exampleProxyConfig(directory: string): string {
  const certificate = join(directory, 'berth.pem')
  writeFileSync(certificate, makeCertificate())
  const file = join(directory, 'haproxy.cfg')
  const example = readFileSync('docs/examples/haproxy.cfg', 'utf8')
  writeFileSync(file, example.replace('/etc/haproxy/berth.pem', certificate))
  return file
}

/** Returns a key and a certificate in PEM, as HAProxy reads them. */
function makeCertificate(): string {
  const subject = ['-subj', '/CN=berth.example', '-days', '2', '-nodes', '-keyout', '-', '-out', '-']
  return execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', ...subject], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}
