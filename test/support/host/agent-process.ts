import { credentials as grpcCredentials } from '@grpc/grpc-js'
import { spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { writeIdentity } from '../../../agent/enrollment/identity.js'
import { ensureAuthority, type Authority } from '../../../gateway/pki/authority.js'
import { GuestServiceClient } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostServiceClient } from '../../../proto/gen/berth/agent/v1/host.js'
import { GuestSettingsServiceClient, RoutingServiceClient } from '../../../proto/gen/berth/agent/v1/network.js'
import { ImageServiceClient } from '../../../proto/gen/berth/agent/v1/image.js'
import { OperationServiceClient } from '../../../proto/gen/berth/agent/v1/operation.js'
import { SecurityServiceClient } from '../../../proto/gen/berth/agent/v1/security.js'
import { WatchServiceClient } from '../../../proto/gen/berth/agent/v1/watch.js'
import { identityDnsName } from '../../../shared/identity.js'
import { freePort } from '../ports.js'
import { areCompiled, nodeArguments } from '../programs.js'
import { waitFor } from '../wait.js'

const dayMs = 24 * 3600 * 1000
const agentProgram = resolve(import.meta.dirname, '../../../dist/agent/main.js')
const tsxInThreads = ['--import', new URL('../tsx-in-threads.mjs', import.meta.url).href]

/** Makes the configuration of a test's agent. @param tag at most 3 letters for names, unique among the tests */
export function agentConfig(
  directory: string,
  tag: string,
  overrides: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    state_dir: join(directory, 'state'),
    run_dir: join(directory, 'run'),
    log_level: 'debug',
    network: {
      bridge: `btest-${tag}`,
      table: `btest_${tag}`,
      interface_prefix: `x${tag}`,
      subnet: subnetOf(tag),
      nat_ports: { start: 20000, end: 29999 }, // the kernel uses higher ports for outgoing connections
    },
    storage: { pool: join(directory, 'pool'), loop_file: join(directory, 'pool.img'), loop_size_gb: 8 },
    swap: { unit_dir: join(directory, 'units') },
    reconcile_interval_seconds: 2,
    ...overrides,
  }
}

/** Chooses one of 1,600 subnets of 4,096 addresses, because agents of several test files run at the same time. */
function subnetOf(tag: string): string {
  const place = [...tag].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 1600, 0)
  return `10.${100 + (place % 100)}.${Math.floor(place / 100) * 16}.0/20`
}

interface AgentProcessParts {
  directory: string
  config: Record<string, unknown>
  authority: Authority
  gateway: { certificatePem: string; privateKeyPem: string }
  /** Arguments of node that precede the agent's subcommand. */
  entry: readonly string[]
}

/** A real agent as a process, with a gateway's certificate for connections to it. */
export class AgentProcess {
  #child: ChildProcess | undefined
  port = 0

  readonly directory: string
  readonly config: Record<string, unknown>
  readonly authority: Authority

  private constructor(private readonly parts: AgentProcessParts) {
    this.directory = parts.directory
    this.config = parts.config
    this.authority = parts.authority
  }

  readonly hostId = 'test-host'

  /** @param source a program that wraps the agent; by default `dist/agent/main.js` is started */
  static async create(tag: string, overrides: Record<string, unknown> = {}, source?: string): Promise<AgentProcess> {
    const directory = mkdtempSync(join(tmpdir(), `btest-${tag}-`))
    chmodSync(directory, 0o711) // root users of guests must reach their root filesystems
    const authority = await ensureAuthority(join(directory, 'ca'), 30)
    const gateway = await authority.issue({ role: 'gateway' }, dayMs)
    const leaf = await authority.issue({ role: 'agent', hostId: 'test-host' }, dayMs)
    await writeIdentity(join(directory, 'state', 'identity'), { ...leaf, caPem: authority.caPem })
    const config = agentConfig(directory, tag, overrides)
    const entry = source ? [...(areCompiled ? [] : tsxInThreads), ...nodeArguments(source)] : [agentProgram]
    return new AgentProcess({ directory, config, authority, gateway, entry })
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  get logPath(): string {
    return join(this.directory, 'agent.log')
  }

  get configPath(): string {
    return join(this.directory, 'agent.yaml')
  }

  async start(environment: Record<string, string> = {}): Promise<void> {
    this.port ||= await freePort()
    mkdirSync(this.directory, { recursive: true })
    writeFileSync(this.configPath, JSON.stringify({ ...this.config, listen: `127.0.0.1:${this.port}` }))
    const log = openSync(this.logPath, 'a')
    this.#child = spawn(process.execPath, [...this.parts.entry, 'serve', '--config', this.configPath], {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...environment },
    })
    closeSync(log)
  }

  /** Waits until the agent has recovered and answers. @throws with the end of the log if the agent exits instead */
  async ready(): Promise<void> {
    const client = this.operations()
    try {
      await waitFor(
        async () => {
          if (this.exited()) throw new Error(`agent exited:\n${this.logTail()}`)
          return reachable(client)
        },
        { what: () => `the agent is ready\n${this.logTail()}` },
      )
    } finally {
      client.close()
    }
  }

  exited(): boolean {
    return !this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (!child || this.exited()) return
    const gone = new Promise((done) => child.once('exit', done))
    child.kill(signal)
    await gone
  }

  logTail(bytes = 4000): string {
    return readFileSync(this.logPath, 'utf8').slice(-bytes)
  }

  guests(): GuestServiceClient {
    return new GuestServiceClient(...this.#target())
  }

  settings(): GuestSettingsServiceClient {
    return new GuestSettingsServiceClient(...this.#target())
  }

  images(): ImageServiceClient {
    return new ImageServiceClient(...this.#target())
  }

  operations(): OperationServiceClient {
    return new OperationServiceClient(...this.#target())
  }

  routing(): RoutingServiceClient {
    return new RoutingServiceClient(...this.#target())
  }

  hosts(): HostServiceClient {
    return new HostServiceClient(...this.#target())
  }

  security(): SecurityServiceClient {
    return new SecurityServiceClient(...this.#target())
  }

  watch(): WatchServiceClient {
    return new WatchServiceClient(...this.#target())
  }

  /** Lets the agent purge everything that it has created on the host, then removes the directory. */
  async destroy(): Promise<void> {
    await this.kill()
    const purge = spawn(process.execPath, [agentProgram, 'purge', '--config', this.configPath], {
      stdio: 'inherit',
    })
    const code = await new Promise<number | null>((done) => purge.once('exit', done))
    if (code !== 0) throw new Error(`purge failed: ${code}`)
    const { rm } = await import('node:fs/promises')
    await rm(this.directory, { recursive: true, force: true })
  }

  #target(): [string, ReturnType<typeof grpcCredentials.createSsl>, Record<string, string>] {
    const credentials = grpcCredentials.createSsl(
      Buffer.from(this.authority.caPem),
      Buffer.from(this.parts.gateway.privateKeyPem),
      Buffer.from(this.parts.gateway.certificatePem),
    )
    const name = identityDnsName({ role: 'agent', hostId: this.hostId })
    return [`127.0.0.1:${this.port}`, credentials, { 'grpc.ssl_target_name_override': name }]
  }
}

function reachable(client: OperationServiceClient): Promise<boolean> {
  return new Promise((done) => {
    client.getOperation({ id: 'none' }, (error) => done(error?.metadata.get('berth-code')[0] === 'not_found'))
  })
}
