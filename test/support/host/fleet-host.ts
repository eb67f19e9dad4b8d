import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { openPool, type StorageConfig } from '../../../agent/storage/pool.js'
import { installBusyboxImage } from '../guests/busybox-image.js'
import { endProcesses } from '../gateway/gateway-process.js'
import type { Instance } from './inventory.js'

const program = resolve(import.meta.dirname, '../../../dist/agent/main.js')
const agentPort = 7443

/**
 * Shell script that mounts a /sys and then runs a command. This /sys has the devices of the network namespace, as on a
 * separate host. `ip netns exec` mounts a similar /sys, but without the cgroups.
 */
const enter = `
exec 3</sys/fs/cgroup
mount -t sysfs sysfs /sys
mount -c --rbind /proc/self/fd/3 /sys/fs/cgroup
exec 3<&- "$@"`

/** The network between hosts and gateway: a bridge with the gateway's address, and a veth to each host's namespace. */
export interface Segment {
  readonly bridge: string
  /** First three numbers of the addresses of this /24 network. The Berth gateway has the address .1. */
  readonly prefix: string
}

export function makeSegment(segment: Segment): void {
  removeSegment(segment)
  ip('link', 'add', segment.bridge, 'type', 'bridge')
  ip('address', 'add', `${segment.prefix}.1/24`, 'dev', segment.bridge)
  ip('link', 'set', segment.bridge, 'up')
}

export function removeSegment({ bridge }: Segment): void {
  spawnSync('ip', ['link', 'delete', bridge])
}

export interface FleetHostOptions {
  readonly name: string
  /** Number of the host in the segment, from 1. It determines the host's address. */
  readonly index: number
  readonly segment: Segment
  /** Directory that contains the directories of all hosts. */
  readonly directory: string
  /** Size of the host's pool in GB. By default 8. */
  readonly poolGb?: number
  /** Further settings of the section `network` in agent.yaml. */
  readonly network?: Record<string, unknown>
}

/**
 * A simulated host: a network namespace with a real agent, its bridge, tables, pool and state. Bridge and tables have
 * the default names of the product. Names of interfaces, cgroups and directories contain the name of the host.
 */
export class FleetHost {
  readonly name: string
  readonly namespace: string
  readonly directory: string
  readonly address: string
  readonly instance: Instance
  readonly #bridge: string
  readonly #poolGb: number
  readonly #network: Record<string, unknown>
  #agent: ChildProcess | undefined

  constructor({ name, index, segment, directory, poolGb = 8, network = {} }: FleetHostOptions) {
    this.name = name
    this.namespace = `btest-${name}`
    this.directory = join(directory, name)
    this.address = `${segment.prefix}.${10 + index}:${agentPort}`
    this.#bridge = segment.bridge
    this.#poolGb = poolGb
    this.#network = network
    this.instance = {
      stateDir: join(this.directory, 'state'),
      pool: join(this.directory, 'pool'),
      table: 'berth',
      interfacePrefix: name,
      namespace: this.namespace,
    }
  }

  /** Creates the host. Also mounts its pool for the tests, which do not see the agent's mount. Call `remove` first. */
  async make(): Promise<void> {
    mkdirSync(this.directory, { recursive: true })
    await openPool(this.#storage)
    await installBusyboxImage(this.instance.pool, 'debian-12')
    writeFileSync(this.#configPath, JSON.stringify(this.#config()))
    ip('netns', 'add', this.namespace)
    const [device, address] = [`${this.namespace}0`, this.address.split(':')[0] ?? '']
    ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'up0', 'netns', this.namespace)
    ip('link', 'set', device, 'master', this.#bridge, 'up')
    ip('-n', this.namespace, 'address', 'add', `${address}/24`, 'dev', 'up0')
    for (const name of ['lo', 'up0']) ip('-n', this.namespace, 'link', 'set', name, 'up')
  }

  /** Joins the host as an operator does: `berth-agent join TOKEN`. */
  join(token: string): void {
    this.#run('join', token)
  }

  /** Runs a command of the agent, such as `import`. */
  runAgent(...args: string[]): { code: number | null; out: string; err: string } {
    const [entry, ...rest] = this.#command(...args)
    const { status, stdout, stderr } = spawnSync(entry ?? '', rest, { encoding: 'utf8' })
    return { code: status, out: stdout, err: stderr }
  }

  startAgentCommand(...args: string[]): ChildProcess {
    const [entry, ...rest] = this.#command(...args)
    return spawn(entry ?? '', rest, { stdio: 'ignore' })
  }

  /** Starts the agent with the memory settings of its systemd unit. */
  start(): void {
    const log = openSync(join(this.directory, 'agent.log'), 'a')
    const [entry, ...args] = this.#command('serve')
    const env = { ...process.env, NODE_OPTIONS: '--max-semi-space-size=1', MALLOC_ARENA_MAX: '1' }
    this.#agent = spawn(entry ?? '', args, { stdio: ['ignore', log, log], env })
    closeSync(log)
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const agent = this.#agent
    if (!agent || agent.exitCode !== null || agent.signalCode !== null) return
    const gone = once(agent, 'exit')
    agent.kill(signal)
    await gone
  }

  /** Pid of the running agent. */
  get pid(): number {
    return this.#agent?.pid ?? 0
  }

  logTail(bytes = 3000): string {
    return readFileSync(join(this.directory, 'agent.log'), 'utf8').slice(-bytes)
  }

  /** Removes everything, including what a crashed run left. The agent's purge is first, and the namespace is last. */
  async remove(): Promise<void> {
    await this.kill()
    endProcesses(this.#configPath)
    if (!existsSync(`/run/netns/${this.namespace}`)) return
    this.#repairNamespace()
    if (existsSync(this.instance.stateDir)) this.#run('purge')
    ip('netns', 'delete', this.namespace)
  }

  /** Replaces a namespace whose mount is gone but whose file is left, as after a kill during the removal. */
  #repairNamespace(): void {
    const nsfs = 0x6e736673 // NSFS_MAGIC of linux/magic.h
    if (statfsSync(`/run/netns/${this.namespace}`).type === nsfs) return
    ip('netns', 'delete', this.namespace)
    ip('netns', 'add', this.namespace)
  }

  get #storage(): StorageConfig {
    const loopFile = join(this.directory, 'pool.img')
    return { pool: this.instance.pool, device: '', loop_file: loopFile, loop_size_gb: this.#poolGb }
  }

  get #configPath(): string {
    return join(this.directory, 'agent.yaml')
  }

  #run(...args: string[]): void {
    const [entry, ...rest] = this.#command(...args)
    execFileSync(entry ?? '', rest, { stdio: ['ignore', 'ignore', 'pipe'] }) // stderr becomes part of the error
  }

  #command(...args: string[]): string[] {
    const agent = [process.execPath, program, ...args, '--config', this.#configPath]
    const namespaces = ['nsenter', `--net=/run/netns/${this.namespace}`, '--', 'unshare', '--mount']
    return [...namespaces, '--propagation', 'private', '--', 'sh', '-ec', enter, 'sh', ...agent]
  }

  #config(): Record<string, unknown> {
    return {
      state_dir: this.instance.stateDir,
      run_dir: join(this.directory, 'run'),
      listen: this.address,
      network: { interface_prefix: this.name, ...this.#network },
      storage: this.#storage,
      lxc: { stop_timeout_seconds: 1 },
      kvm: { stop_timeout_seconds: 5 }, // a virtual machine that is still booting ignores the power button
      reconcile_interval_seconds: 2,
    }
  }
}

function ip(...args: string[]): void {
  execFileSync('ip', args)
}
