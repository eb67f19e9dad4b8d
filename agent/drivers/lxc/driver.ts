import type { Logger } from 'pino'
import { conflict } from '../../../shared/errors.js'
import type {
  AssignResult,
  ConsoleMode,
  ConsolePlace,
  Driver,
  DriverDescription,
  ObservedGuest,
  PasswordResult,
  ResizeResult,
  StopCause,
  UsageSample,
} from '../contract.js'
import type { CurrentLogin, Login, Machine, VolumeCopy } from '../machine.js'
import { readRootLogin } from '../../host/guest/guest-root.js'
import { LxcAccess } from './access.js'
import { assignLxcAddresses } from './assign.js'
import { LxcConfigStore } from './config-store.js'
import { connectGuest } from './connect.js'
import { capabilitiesOf } from './capabilities.js'
import { freezeGuest, thawContainer } from './freeze.js'
import {
  describeCgroups,
  describeThrottling,
  findHindrance,
  hasLxcfs,
  readHostFacts,
  type LxcHostFacts,
} from './host-facts.js'
import { findDiskNumbers } from '../common/group-facts.js'
import { PoolDisks } from '../common/pool-disks.js'
import { parseCurrentLogin } from '../common/shadow-field.js'
import { GuestNames } from '../common/guest-names.js'
import { ensureFairDisk } from './fair-disk.js'
import { checkRoot } from './check-root.js'
import { adoptGuest, initializeGuest, setHostname } from './initialize.js'
import { lxcPaths, type LxcPaths } from './paths.js'
import { describeOutdated, listOutdated, type OutdatedGuest } from './outdated.js'
import { configFacts } from './config-facts.js'
import { planConfig } from './plan-config.js'
import { planSocketFilter, type OpenCalls } from './plan-socket-filter.js'
import { observeContainers, readContainerProcessors } from './observe.js'
import { LxcPower, type LxcPowerContext } from './power.js'
import { resizeContainer, type LxcResizeContext } from './resize.js'
import { LxcRuntimeReader } from './runtime.js'
import { StoppedEvents } from './stopped-events.js'
import { confinementFor, ensureSupportFiles, namespaceFor } from './support-files.js'
import { GroupMoves } from '../../host/process/group-moves.js'
import type { MemoryKills } from '../../host/process/memory-kills.js'
import { withHash } from '../common/login-hash.js'
import { UsageReader } from '../common/usage.js'

export interface LxcDriverOptions {
  /** Directory above `lxc` (guests' files) and `lxc-support`: an absolute path of letters, digits and `._-/`. */
  readonly stateDir: string
  /** Directory of the mark files that hooks leave for guests that have ended (see stopped-events.ts). */
  readonly runDir: string
  /** A guest's name in lxc is `<prefix>-<id>`. */
  readonly namePrefix: string
  /** Time in ms from the request to shut down until a guest that still runs is killed. */
  readonly stopTimeoutMs: number
  readonly log: Logger
  /** Records which processes were killed because memory ran out. If omitted, such a kill is reported as a shutdown. */
  readonly memoryKills?: MemoryKills
  /** System calls that this host allows to guests although they are closed by default. Default: no such calls. */
  readonly allow?: readonly OpenCalls[]
  /** Mount point of lxcfs; default /var/lib/lxcfs. */
  readonly lxcfsDir?: string
}

/** Location of the guests' disks, from the configuration section `storage`. */
export interface PoolPlace {
  readonly pool: string
  /** File behind the pool's loop device, if it has one. */
  readonly loop_file: string
}

/** Runs containers with lxc's tools (see contract.ts). {@link createLxcDriver} creates it. */
export class LxcDriver implements Driver {
  readonly kind = 'lxc'
  readonly #context: LxcPowerContext & LxcResizeContext
  readonly #disks = new PoolDisks()
  readonly #power: LxcPower
  readonly #access: LxcAccess
  readonly #outdated: readonly OutdatedGuest[]
  readonly #moves: GroupMoves

  constructor(
    private readonly options: LxcDriverOptions,
    private readonly paths: LxcPaths,
    private readonly facts: LxcHostFacts,
  ) {
    const { allow = [], namePrefix, log } = options
    const runtime = new LxcRuntimeReader(facts.cgroups, paths)
    const configs = new LxcConfigStore(paths, namePrefix)
    const names = new GuestNames({ paths, configs, runtime })
    configs.sweep((name) => runtime.read(name).state === 'stopped')
    const usage = new UsageReader(facts.cgroups, 'lxc.payload.')
    const place = { paths, facts, lxcfsDir: options.lxcfsDir ?? '/var/lib/lxcfs' }
    const namespace = namespaceFor(allow)
    const events = new StoppedEvents({
      marksDir: paths.marks,
      runtime,
      uuidOf: (name) => configs.findUuid(name),
      ranOutOfMemory: (pid) => options.memoryKills?.wasKilled(pid) ?? false,
      log,
    })
    this.#context = { paths, runtime, configs, names, events, usage, place, namespace, namePrefix, log }
    this.#power = new LxcPower(this.#context)
    this.#access = new LxcAccess({ paths, runtime, names, filter: planSocketFilter(allow) })
    this.#moves = new GroupMoves(facts.cgroups)
    this.#outdated = listOutdated(runtime, namePrefix, confinementFor(allow))
  }

  get stopTimeoutMs(): number {
    return this.options.stopTimeoutMs
  }

  async describe(): Promise<DriverDescription> {
    const reason = findHindrance(this.paths.lxcPath, this.facts.cgroups)
    const capabilities = capabilitiesOf(this.facts.cgroups)
    const described = { available: reason === undefined, acceleration: '', capabilities }
    return reason === undefined ? described : { ...described, reason }
  }

  get cgroupVersion(): 1 | 2 {
    return this.facts.cgroups.version
  }

  /**
   * If the pool's disk is the agent's own loop device, sets a scheduler that shares the disk's time among guests.
   * @returns warnings for the operator about host settings that weaken the separation of guests
   */
  ensureSeparation({ pool, loop_file: ownFile }: PoolPlace): string[] {
    const disk = findDiskNumbers(pool)
    return [...describeCgroups(this.facts.cgroups), ...describeThrottling(disk), ...ensureFairDisk(disk, ownFile)]
  }

  /**
   * Reads one file per guest.
   * @returns warnings for the operator about running guests that an earlier agent started with weaker limits
   */
  describeOutdated(): string[] {
    return describeOutdated(this.#outdated)
  }

  /** True if lxcfs runs. lxcfs shows guests their own memory, processors and load. */
  hasLxcfs(): boolean {
    return hasLxcfs(this.#context.place.lxcfsDir)
  }

  volumeLimitBytes({ limits }: Machine): number {
    return limits.diskBytes
  }

  async prepareEmpty(): Promise<void> {
    // Nothing to do, because a container's backup is restored into an empty directory.
  }

  /** Rejects a backup that contains a virtual machine's disk. A container's files need no trimming. */
  trimFetched(volume: string): Promise<void> {
    return checkRoot(volume)
  }

  async configure(machine: Machine): Promise<void> {
    this.#moves.prepare()
    const { configs, names, place } = this.#context
    const name = names.freeNameOf(machine)
    await configs.write(name, machine.uuid, planConfig(machine, configFacts(place, machine, name)))
  }

  async start(machine: Machine, signal: AbortSignal, connected?: () => Promise<void>): Promise<void> {
    this.#moves.prepare()
    await this.#power.start(machine, signal)
    await connected?.()
  }

  prepareLogin(login: Login): Promise<Login> {
    return withHash(login)
  }

  async initialize(machine: Machine, login: Login, volume: string): Promise<void> {
    const { names, runtime } = this.#context
    const name = names.freeNameOf(machine)
    if (volume === machine.volume && runtime.read(name).state !== 'stopped')
      throw conflict('guest_running', 'stop the container first')
    await initializeGuest(volume, machine, login)
  }

  adopt(machine: Machine, login: Login, copy: VolumeCopy): Promise<void> {
    return adoptGuest(copy, machine, login)
  }

  setHostname(machine: Machine): Promise<void> {
    return setHostname(machine)
  }

  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void> {
    return this.#power.stop(machine, options)
  }

  kill(machine: Machine): Promise<void> {
    return this.#power.kill(machine)
  }

  delete(machine: Machine): Promise<void> {
    return this.#power.delete(machine)
  }

  async observe(): Promise<ObservedGuest[]> {
    return observeContainers(this.#context)
  }

  async readProcessors(): Promise<ReadonlyMap<string, readonly number[]>> {
    return readContainerProcessors(this.#context)
  }

  async listTraces(): Promise<string[]> {
    return this.#context.configs.listUuids()
  }

  removeTraces(uuid: string): Promise<boolean> {
    return this.#power.removeTraces(uuid)
  }

  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#context.events.onStopped(listener)
  }

  async usage(machine: Machine, pid: number): Promise<UsageSample> {
    const disk = this.#disks.find(machine.volume)
    const { names, usage } = this.#context
    return usage.read(names.nameOf(machine), machine.nic.device, pid, disk)
  }

  async resize(machine: Machine): Promise<ResizeResult> {
    return resizeContainer(this.#context, machine)
  }

  async assignAddresses(machine: Machine, gone: readonly string[]): Promise<AssignResult> {
    const { runtime, configs, names, place } = this.#context
    const name = names.nameOf(machine)
    const { init } = runtime.read(name)
    if (!init) return 'unchanged'
    const lines = planConfig(machine, configFacts(place, machine, name))
    const rewritten = await configs.ensure(name, machine.uuid, lines)
    const assigned = await assignLxcAddresses(init, machine.nic, gone)
    return assigned || rewritten ? 'applied' : 'unchanged'
  }

  async connect(machine: Machine): Promise<boolean> {
    const { names, runtime } = this.#context
    const { init, state } = runtime.read(names.nameOf(machine))
    return init !== undefined && state === 'running' && connectGuest(init, machine.nic)
  }

  setPassword(machine: Machine, password: string): Promise<PasswordResult> {
    return this.#access.setPassword(machine, password)
  }

  overridePassword(machine: Machine, password: string): Promise<PasswordResult> {
    return this.#access.overridePassword(machine, password)
  }

  async readLogin({ volume }: Machine): Promise<CurrentLogin | undefined> {
    const { shadowField, authorizedKeys } = await readRootLogin(volume)
    return parseCurrentLogin(shadowField, authorizedKeys)
  }

  freeze(machine: Machine, timeoutMs: number): Promise<boolean> {
    return freezeGuest(this.facts.cgroups, this.#context.names.nameOf(machine), timeoutMs)
  }

  async thaw(machine: Machine): Promise<void> {
    thawContainer(this.facts.cgroups, this.#context.names.nameOf(machine))
  }

  async findConsole(machine: Machine, mode: ConsoleMode, command: readonly string[] = []): Promise<ConsolePlace> {
    return this.#access.findConsole(machine, mode, command)
  }

  screenshot(): Promise<Buffer> {
    return Promise.reject(conflict('unsupported', 'only virtual machines have a screen'))
  }

  /** Ends the watch for guests that end. The guests keep running. */
  close(): void {
    this.#context.events.close()
  }

  /** Shuts down every guest with the driver's prefix, even one without a configuration file. Kills slow guests. */
  stopAll(): Promise<void> {
    return this.#power.stopAll(this.options.stopTimeoutMs)
  }

  /**
   * Kills every guest with the driver's prefix, even one without a configuration file. Removes everything that the
   * driver has created on the host. The driver is unusable afterwards.
   */
  async removeAll(): Promise<void> {
    this.close()
    await this.#power.removeAll()
  }
}

/** Writes lxc's support files and starts to watch for guests that end. */
export async function createLxcDriver(options: LxcDriverOptions): Promise<LxcDriver> {
  const paths = lxcPaths(options)
  await ensureSupportFiles(paths, options.allow ?? [])
  return new LxcDriver(options, paths, await readHostFacts())
}
