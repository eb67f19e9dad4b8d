import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { RedisAccess, RedisAddress } from '../../../gateway/store/redis-access.js'
import type { ServerOptions } from '../../../gateway/store/server-finder.js'
import { waitFor } from '../wait.js'

/** Parent directory, in memory if possible: Redis on a busy disk would look like a failed server. */
const directories = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
const run = promisify(execFile)
export const masterName = 'lab'
const ports = { redis: 6379, sentinel: 26_379 }

export interface RedisLabOptions {
  /** Lines for the configuration of all Redis servers and Sentinels. */
  readonly lines?: readonly string[]
  readonly redisLines?: readonly string[]
  readonly sentinelLines?: readonly string[]
  /** Options of redis-cli for the servers and Sentinels, such as a password. */
  readonly clientOptions?: readonly string[]
  readonly access?: RedisAccess
  /** Access data with which stores log in to the Sentinels. Default: `access`. */
  readonly sentinelAccess?: RedisAccess
  /**
   * Machines, each with a Redis server and a Sentinel. The caller must cut off these machines itself. Default: servers
   * on loopback addresses, which the lab cuts off with nftables.
   */
  readonly machines?: readonly RedisMachine[]
  /** Called with the addresses of the lab before its servers start. */
  readonly prepare?: (addresses: readonly string[]) => void
}

export interface RedisMachine {
  readonly host: string
  /** Network namespace that has the address `host`. */
  readonly namespace: string
}

interface LabServer {
  readonly address: RedisAddress
  /** Network namespace in which the server runs. Default: the namespace of the test. */
  readonly namespace: string | undefined
  readonly directory: string
  readonly isSentinel: boolean
  child: ChildProcess | undefined
}

const noAccess: RedisAccess = { username: '', passwordFile: '', tls: undefined }

/**
 * Three real Redis servers, one of them the master, and three Sentinels, each with a loopback address of its own. A table
 * of nftables cuts servers off from each other or from everything.
 */
export class RedisLab {
  readonly #redis: LabServer[]
  readonly #sentinels: LabServer[]
  readonly #table: string
  #isStopped = false

  private constructor(
    readonly directory: string,
    private readonly network: string,
    private readonly options: RedisLabOptions,
  ) {
    const make = (first: number, isSentinel: boolean): LabServer[] =>
      [0, 1, 2].map((index) => {
        const machine = options.machines?.[index]
        const [host, port] = [machine?.host ?? `${network}.${first + index}`, isSentinel ? ports.sentinel : ports.redis]
        const own = join(directory, `${host}-${port}`)
        return { address: { host, port }, namespace: machine?.namespace, directory: own, isSentinel, child: undefined }
      })
    this.#redis = make(1, false)
    this.#sentinels = make(11, true)
    this.#table = `btest-lab-${network.replaceAll('.', '-')}`
  }

  static async start(options: RedisLabOptions = {}): Promise<RedisLab> {
    const directory = mkdtempSync(join(directories, `btest-redis-lab-`))
    const lab = new RedisLab(directory, `127.${randomInt(64, 127)}.${randomInt(0, 256)}`, options)
    options.prepare?.(lab.#all.map(({ address }) => address.host))
    if (!options.machines) lab.#addTable()
    try {
      await lab.#startAll()
      return lab
    } catch (error) {
      await lab.stop()
      throw error
    }
  }

  async #startAll(): Promise<void> {
    this.#redis.forEach((_, index) => this.restart(index))
    await waitFor(async () => (await this.#replicasOf(0)) === 2, { what: 'two replicas' })
    for (const sentinel of this.#sentinels) this.#start(sentinel)
    for (const sentinel of this.#sentinels)
      await waitFor(() => this.#hasQuorum(sentinel), { what: 'the Sentinels know each other' })
  }

  /** Options for a store that uses this lab. */
  get server(): ServerOptions {
    const { access = noAccess, sentinelAccess = access } = this.options
    const addresses = this.#sentinels.map(({ address }) => address)
    return { url: '', access, sentinels: { addresses, masterName, access: sentinelAccess }, confirmingReplicas: 1 }
  }

  /** Section `redis` of gateway.yaml for a gateway that uses this lab. */
  get config(): Record<string, unknown> {
    const sentinels = this.#sentinels.map(({ address }) => `${address.host}:${address.port}`)
    return { sentinels, master_name: masterName, prefix: 'btest:' }
  }

  /** Section `redis` of gateway.yaml for a gateway that uses a server of the lab without Sentinels and confirmations. */
  singleConfig(index: number): Record<string, unknown> {
    const { host, port } = this.#redis[index]!.address
    return { url: `redis://${host}:${port}`, prefix: 'bsingle:' }
  }

  async master(): Promise<number> {
    return waitFor(() => this.#findMaster(), { what: 'a master that all Sentinels name' }).then(([index]) => index)
  }

  /** Waits until two Sentinels agree on a master other than `index`. */
  async masterOtherThan(index: number): Promise<void> {
    const isChosen = async (): Promise<boolean> => {
      const named = await this.#namedMasters()
      const others = named.filter((host) => host !== '' && host !== this.#redis[index]!.address.host)
      return others.some((host, at) => others.indexOf(host) !== at)
    }
    await waitFor(isChosen, { what: 'another master' })
  }

  /** Waits until the master has both replicas. */
  async whole(): Promise<void> {
    await waitFor(
      async () => {
        const [master] = (await this.#findMaster()) ?? []
        return master !== undefined && (await this.#replicasOf(master)) === 2
      },
      { what: 'a master with two replicas' },
    )
  }

  async kill(index: number): Promise<void> {
    await end(this.#redis[index]!)
  }

  signal(index: number, signal: NodeJS.Signals): void {
    this.#redis[index]!.child?.kill(signal)
  }

  async killSentinel(index: number): Promise<void> {
    await end(this.#sentinels[index]!)
  }

  /** Starts a server with its former data. */
  restart(index: number): void {
    this.#start(this.#redis[index]!)
  }

  /** Cuts a server off from all other servers and all Sentinels. Clients still reach the server. */
  isolate(index: number): void {
    this.#nft(`add element inet ${this.#table} isolated { ${this.#redis[index]!.address.host} }`)
  }

  /** Cuts a server off from everything. */
  cut(index: number): void {
    this.#nft(`add element inet ${this.#table} cut { ${this.#redis[index]!.address.host} }`)
  }

  /** Restores all connections. */
  heal(): void {
    for (const set of ['isolated', 'cut']) this.#nft(`flush set inet ${this.#table} ${set}`)
  }

  /** Runs redis-cli. @returns its output; "" if the server does not answer */
  ask(index: number, ...command: readonly string[]): Promise<string> {
    return this.#ask(this.#redis[index]!, ...command)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#all.map(end))
    if (!this.options.machines) this.#nft(`delete table inet ${this.#table}`)
    rmSync(this.directory, { recursive: true, force: true })
  }

  get #all(): LabServer[] {
    return [...this.#sentinels, ...this.#redis]
  }

  #addTable(): void {
    this.#nft(`
      table inet ${this.#table} {
        set isolated { type ipv4_addr; }
        set cut { type ipv4_addr; }
        chain out {
          type filter hook output priority 0;
          ip saddr @cut drop
          ip daddr @cut drop
          ip saddr @isolated ip daddr ${this.network}.0/24 drop
          ip daddr @isolated ip saddr ${this.network}.0/24 drop
        }
      }`)
  }

  #nft(text: string): void {
    execFileSync('nft', ['-f', '-'], { input: text })
  }

  /** Does nothing after `stop`, because a test that is interrupted may still restore a server. */
  #start(server: LabServer): void {
    if (this.#isStopped) return
    const file = join(server.directory, 'redis.conf')
    if (!existsSync(file)) {
      mkdirSync(server.directory)
      writeFileSync(file, [...this.#lines(server), ''].join('\n'))
    }
    const mode = server.isSentinel ? ['--sentinel'] : []
    const enter = server.namespace === undefined ? [] : ['ip', 'netns', 'exec', server.namespace]
    const [command = '', ...args] = [...enter, '/usr/bin/redis-server', file, ...mode]
    server.child = spawn(command, args, { stdio: 'ignore' })
  }

  #lines({ address: { host, port }, directory, isSentinel }: LabServer): string[] {
    const { lines = [], redisLines = [], sentinelLines = [] } = this.options
    const hasTls = lines.some((line) => line.startsWith('tls-port'))
    const common = [`bind ${host}`, `bind-source-addr ${host}`, `dir ${directory}`, `logfile ${directory}/log`]
    const listen = hasTls ? ['port 0', `tls-port ${port}`] : [`port ${port}`]
    const all = [...common, 'protected-mode no', ...lines.filter((line) => !line.startsWith('tls-port')), ...listen]
    return isSentinel
      ? [...all, ...this.#sentinelLines(), ...sentinelLines]
      : [...all, ...this.#redisLines(host), ...redisLines]
  }

  #redisLines(host: string): string[] {
    const master = this.#redis[0]!.address
    const durable = ['appendonly yes', 'appendfsync always', 'save ""', 'repl-diskless-sync-delay 0', 'repl-timeout 5']
    return host === master.host ? durable : [...durable, `replicaof ${master.host} ${master.port}`]
  }

  #sentinelLines(): string[] {
    const { host, port } = this.#redis[0]!.address
    return [
      `sentinel monitor ${masterName} ${host} ${port} 2`,
      `sentinel down-after-milliseconds ${masterName} 1000`,
      `sentinel failover-timeout ${masterName} 6000`,
    ]
  }

  async #ask({ address: { host, port } }: LabServer, ...command: readonly string[]): Promise<string> {
    const options = ['-h', host, '-p', String(port), ...(this.options.clientOptions ?? [])]
    return run('redis-cli', [...options, ...command], { timeout: 1000 }).then(
      ({ stdout }) => stdout,
      () => '',
    )
  }

  async #replicasOf(index: number): Promise<number> {
    const info = await this.ask(index, 'INFO', 'replication')
    return [...info.matchAll(/^slave\d+:.*state=online/gm)].length
  }

  async #hasQuorum(sentinel: LabServer): Promise<boolean> {
    return (await this.#ask(sentinel, 'SENTINEL', 'CKQUORUM', masterName)).startsWith('OK 3 usable')
  }

  /** @returns an array with the index of the master: `waitFor` would not accept 0, which is falsy */
  async #findMaster(): Promise<[number] | undefined> {
    const named = await this.#namedMasters()
    const index = this.#redis.findIndex(({ address }) => address.host === named[0])
    return index >= 0 && named.every((host) => host === named[0]) ? [index] : undefined
  }

  /** Addresses of the master that the running Sentinels report; "" for a Sentinel that does not answer. */
  async #namedMasters(): Promise<string[]> {
    const running = this.#sentinels.filter(({ child }) => child !== undefined)
    const answers = await Promise.all(
      running.map((one) => this.#ask(one, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName)),
    )
    return answers.map((answer) => answer.split('\n')[0] ?? '')
  }
}

async function end(server: LabServer): Promise<void> {
  const { child } = server
  server.child = undefined
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}
