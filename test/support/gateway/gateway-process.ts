import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, cpSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { apiCall, type ApiReply } from './api-call.js'
import { freePort } from '../ports.js'
import { processes } from '../host/inventory.js'
import { killIfThere } from '../kill.js'
import { silentLog } from './redis.js'
import { waitFor } from '../wait.js'

const program = resolve(import.meta.dirname, '../../../dist/gateway/main.js')

export type GatewayReply = ApiReply

export interface GatewayRequestOptions {
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

/** A real gateway as a process with its private Redis. Its directory is removed by the test. */
export class GatewayProcess {
  #child: ChildProcess | undefined

  private constructor(
    readonly directory: string,
    readonly port: number,
    readonly adminKey: string,
  ) {}

  /** @param joinHost address where agents reach the gateway @param overrides settings that replace the usual ones */
  static async create(
    directory: string,
    joinHost = '127.0.0.1',
    overrides: Record<string, unknown> = {},
  ): Promise<GatewayProcess> {
    mkdirSync(directory, { recursive: true })
    const [port, joinPort] = [await freePort(), await freePort()]
    const config = {
      state_dir: join(directory, 'state'),
      run_dir: join(directory, 'run'),
      listen: `127.0.0.1:${port}`,
      join_listen: `${joinHost}:${joinPort}`,
      agents: { silence_ms: 10_000, call_timeout_ms: 60_000 }, // long enough for a machine that stalls
      ...overrides,
    }
    writeFileSync(join(directory, 'gateway.yaml'), JSON.stringify(config))
    const keyFile = join(directory, 'admin.key')
    const args = [program, 'init', '--config', join(directory, 'gateway.yaml'), '--admin-key-file', keyFile]
    execFileSync(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    return new GatewayProcess(directory, port, readFileSync(keyFile, 'utf8').trim())
  }

  /** Pid of the gateway's current process. */
  get pid(): number {
    return this.#child!.pid!
  }

  /** @param namespace network namespace; by default the namespace of the test */
  start(namespace?: string, environment: Record<string, string> = {}): void {
    const log = openSync(join(this.directory, 'gateway.log'), 'a')
    const args = [program, 'serve', '--config', join(this.directory, 'gateway.yaml')]
    const enter = namespace === undefined ? [] : ['ip', 'netns', 'exec', namespace]
    const [file = '', ...rest] = [...enter, process.execPath, ...args]
    this.#child = spawn(file, rest, { stdio: ['ignore', log, log], env: { ...process.env, ...environment } })
    closeSync(log)
  }

  /** Resolves when the gateway and its store answer. @throws with the end of the log */
  async ready(): Promise<void> {
    await waitFor(async () => (await this.request('GET', '/dashboard').catch(() => undefined))?.status === 200, {
      what: () => `gateway ready\n${this.logTail()}`,
    })
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }

  /** Resolves when the gateway has ended by itself. @returns its exit code; null: it was killed */
  async ended(): Promise<number | null> {
    const child = this.#child!
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    return child.exitCode
  }

  /** Returns this gateway with another API key for requests. */
  withKey(adminKey: string): Pick<GatewayProcess, 'request'> {
    return new GatewayProcess(this.directory, this.port, adminKey)
  }

  /** Sends one request as the administrator. @param path relative to /api/v1 */
  async request(method: string, path: string, options: GatewayRequestOptions = {}): Promise<GatewayReply> {
    const { body, headers = {} } = options
    return apiCall(this.url, [method, `/api/v1${path}`], {
      headers: {
        'x-api-key': this.adminKey,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  logTail(bytes = 4000): string {
    return readFileSync(join(this.directory, 'gateway.log'), 'utf8').slice(-bytes)
  }

  async close(): Promise<void> {
    await this.kill('SIGTERM')
    await stopRedis(this.directory)
  }
}

/** Copies the secret and the CA of another gateway, because all gateways on one store share both. */
export function shareState(from: GatewayProcess, to: GatewayProcess): void {
  const [source, target] = [from, to].map(({ directory }) => join(directory, 'state')) as [string, string]
  rmSync(target, { recursive: true })
  for (const shared of ['secret', 'pki'])
    cpSync(join(source, shared), join(target, shared), { recursive: true, preserveTimestamps: true })
}

/** Kills gateways that a crashed test run left, and then their Redis. Their command lines contain `directory`. */
export async function endLeftGateway(directory: string): Promise<void> {
  endProcesses(join(directory, 'gateway.yaml'))
  await stopRedis(directory)
}

/** Kills all Node processes that have `path` in one of their arguments. */
export function endProcesses(path: string): void {
  for (const { pid, command } of processes())
    if (command.startsWith(process.execPath) && command.split(' ').includes(path)) killIfThere(pid)
}

async function stopRedis(directory: string): Promise<void> {
  const [stateDir, runDir] = [join(directory, 'state'), join(directory, 'run')]
  await new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog }).stop()
}
