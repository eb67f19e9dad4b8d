import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { BerthError, conflict } from '../../../shared/errors.js'
import type {
  AssignResult,
  ConsoleMode,
  ConsolePlace,
  CurrentLogin,
  Driver,
  DriverDescription,
  Login,
  Machine,
  ObservedGuest,
  PasswordResult,
  ResizeResult,
  StopCause,
  UsageSample,
  VolumeCopy,
} from '../contract.js'
import { findTerminals } from '../../host/guest/guest-terminal.js'
import { readRootLogin } from '../../host/guest/guest-root.js'
import { lxcConsole, lxcShell } from '../../host/guest/lxc.js'
import { assignLxcAddresses } from './assign.js'
import { boundGroups } from './bound-groups.js'
import { LxcConfigStore } from './config-store.js'
import { connectGuest } from './connect.js'
import { capabilitiesOf } from './capabilities.js'
import { freezeGuest, thawContainer } from './freeze.js'
import { overrideRootPassword, setRootPassword } from './password.js'
import {
  describeCgroups,
  describeThrottling,
  findHindrance,
  hasLxcfs,
  readHostFacts,
  type LxcHostFacts,
} from './host-facts.js'
import { findDiskNumbers } from '../common/group-facts.js'
import { parseCurrentLogin } from '../common/shadow-field.js'
import { GuestNames } from '../common/guest-names.js'
import { ensureFairDisk } from './fair-disk.js'
import { checkRoot } from './check-root.js'
import { adoptGuest, initializeGuest } from './initialize.js'
import { removeLeftovers } from './leftovers.js'
import { lxcPaths, type LxcPaths } from './paths.js'
import { describeOutdated, listOutdated, type OutdatedGuest } from './outdated.js'
import { configFacts, type ConfigPlace } from './config-facts.js'
import { planConfig } from './plan-config.js'
import { planSocketFilter, type OpenCalls } from './plan-socket-filter.js'
import { limitsOf } from '../common/plan-limits.js'
import { resizeGroups } from '../common/group-limits.js'
import { LxcRuntimeReader } from './runtime.js'
import { startGuest } from './start.js'
import { removeAll } from './remove-all.js'
import { killGuest, stopGuest, type LxcStopContext, type StopTarget } from './stop.js'
import { stopAll } from './stop-all.js'
import { StoppedEvents } from './stopped-events.js'
import { confinementFor, ensureSupportFiles, namespaceFor } from './support-files.js'
import { GroupMoves } from '../../host/process/group-moves.js'
import type { MemoryKills } from '../../host/process/memory-kills.js'
import { withHash } from '../common/login-hash.js'
import { readProcessors } from '../common/processors.js'
import { UsageReader } from '../common/usage.js'

export interface LxcDriverOptions {
  /** Contains `lxc` (one directory per guest) and `lxc-support`. Absolute; only letters, digits and `._-/`. */
  readonly stateDir: string
  /** Contains marks of ended guests. */
  readonly runDir: string
  /** A guest's name in lxc is `<prefix>-<id>`. */
  readonly namePrefix: string
  /** Time that a guest may take to shut down. */
  readonly stopTimeoutMs: number
  readonly log: Logger
  /**
   * Reports processes killed because memory ran out. Absent: the driver reports such an end as a shutdown from inside.
   */
  readonly memoryKills?: MemoryKills
  /** System calls that are closed to guests by default and that this host allows; default: none. */
  readonly allow?: readonly OpenCalls[]
  /** Mount point of lxcfs; default /var/lib/lxcfs. */
  readonly lxcfsDir?: string
}

/** Location of the guests' disks; configuration section `storage`. */
export interface PoolPlace {
  readonly pool: string
  /** File behind the pool's loop device, if it has one. */
  readonly loop_file: string
}

/** Runs containers with lxc's tools; see contract.ts. {@link createLxcDriver} creates it. */
export class LxcDriver implements Driver {
  readonly kind = 'lxc'
  readonly #runtime: LxcRuntimeReader
  readonly #configs: LxcConfigStore
  readonly #names: GuestNames
  readonly #events: StoppedEvents
  readonly #usage: UsageReader
  readonly #disks = new Map<string, string | undefined>()
  readonly #place: ConfigPlace
  readonly #namespace: readonly string[]
  readonly #outdated: readonly OutdatedGuest[]
  readonly #moves: GroupMoves

  constructor(
    private readonly options: LxcDriverOptions,
    private readonly paths: LxcPaths,
    private readonly facts: LxcHostFacts,
  ) {
    this.#runtime = new LxcRuntimeReader(facts.cgroups, paths)
    this.#configs = new LxcConfigStore(paths, options.namePrefix)
    this.#names = new GuestNames({ paths, configs: this.#configs, runtime: this.#runtime })
    this.#configs.sweep((name) => this.#runtime.read(name).state === 'stopped')
    this.#usage = new UsageReader(facts.cgroups, 'lxc.payload.')
    this.#moves = new GroupMoves(facts.cgroups)
    this.#namespace = namespaceFor(options.allow ?? [])
    this.#outdated = listOutdated(this.#runtime, options.namePrefix, confinementFor(options.allow ?? []))
    this.#place = { paths, facts, lxcfsDir: options.lxcfsDir ?? '/var/lib/lxcfs' }
    this.#events = new StoppedEvents({
      marksDir: paths.marks,
      runtime: this.#runtime,
      uuidOf: (name) => this.#configs.findUuid(name),
      ranOutOfMemory: (pid) => options.memoryKills?.wasKilled(pid) ?? false,
      log: options.log,
    })
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
   * Sets the disk scheduler that shares the pool's disk among guests, if the disk is the agent's own.
   * @returns warnings for the operator about host settings that weaken the separation of guests
   */
  ensureSeparation({ pool, loop_file: ownFile }: PoolPlace): string[] {
    const disk = findDiskNumbers(pool)
    return [...describeCgroups(this.facts.cgroups), ...describeThrottling(disk), ...ensureFairDisk(disk, ownFile)]
  }

  /**
   * @returns warnings for the operator about guests that an earlier agent started with weaker bounds. Reads one file
   * per guest.
   */
  describeOutdated(): string[] {
    return describeOutdated(this.#outdated)
  }

  /** True if guests see their own memory, processors and load. */
  hasLxcfs(): boolean {
    return hasLxcfs(this.#place.lxcfsDir)
  }

  volumeLimitBytes({ limits }: Machine): number {
    return limits.diskBytes
  }

  async prepareEmpty(): Promise<void> {
    // any directory will do
  }

  /**
   * A container's files need no trimming. The backup may contain a virtual machine's disk, though, which is rejected.
   */
  trimFetched(volume: string): Promise<void> {
    return checkRoot(volume)
  }

  async configure(machine: Machine): Promise<void> {
    this.#moves.prepare()
    const name = this.#names.freeNameOf(machine)
    await this.#configs.write(name, machine.uuid, planConfig(machine, configFacts(this.#place, machine, name)))
  }

  async start(machine: Machine, signal: AbortSignal, connected?: () => Promise<void>): Promise<void> {
    this.#moves.prepare()
    const name = this.#names.freeNameOf(machine)
    await this.#events.whileBusy(name, async () => {
      const clearMark = (of: string): void => this.#events.clearMark(of)
      const running = await startGuest(
        { paths: this.paths, runtime: this.#runtime, namespace: this.#namespace, clearMark },
        machine,
        signal,
      )
      this.#events.track(name, machine.uuid, running)
    })
    await connected?.()
  }

  prepareLogin(login: Login): Promise<Login> {
    return withHash(login)
  }

  async initialize(machine: Machine, login: Login, volume: string): Promise<void> {
    const name = this.#names.freeNameOf(machine)
    if (volume === machine.volume && this.#runtime.read(name).state !== 'stopped')
      throw conflict('guest_running', 'stop the container first')
    await initializeGuest(volume, machine, login)
  }

  adopt(machine: Machine, login: Login, copy: VolumeCopy): Promise<void> {
    return adoptGuest(copy, machine, login)
  }

  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void> {
    return this.#ending(machine, (target) => stopGuest(this.#context, target, options))
  }

  kill(machine: Machine): Promise<void> {
    return this.#ending(machine, (target) => killGuest(this.#context, target))
  }

  async delete(machine: Machine): Promise<void> {
    await this.#ending(machine, async (target) => {
      if (this.#runtime.read(target.name).state !== 'stopped')
        throw conflict('guest_running', `${target.name} still has processes: it is not deleted`)
      await removeLeftovers(this.#runtime, target)
      this.#discardConfig(target.name)
    })
  }

  async observe(): Promise<ObservedGuest[]> {
    return this.#runtime.listNames(this.options.namePrefix).flatMap((name) => {
      const uuid = this.#configs.findUuid(name)
      const now = this.#runtime.read(name)
      if (uuid === undefined || now.state === 'stopped') return []
      this.#events.track(name, uuid, now)
      const { state, init } = now
      return [init ? { uuid, state, pid: init.pid, startTime: init.startTime } : { uuid, state }]
    })
  }

  async readProcessors(): Promise<ReadonlyMap<string, readonly number[]>> {
    const path = this.facts.cgroups.controllers.get('cpuset')
    if (path === undefined) return new Map()
    const names = this.#runtime.listNames(this.options.namePrefix)
    return readProcessors(
      names.map((name) => ({ uuid: this.#configs.findUuid(name), path: `${path}/lxc.payload.${name}` })),
    )
  }

  async listTraces(): Promise<string[]> {
    return this.#configs.listUuids()
  }

  async removeTraces(uuid: string): Promise<boolean> {
    const name = this.#configs.findName(uuid)
    const suspects = name === undefined ? this.#names.listUnknown(this.options.namePrefix) : [name]
    if (suspects.some((suspect) => this.#runtime.read(suspect).state !== 'stopped')) return false
    if (name !== undefined) await this.#configs.remove(name)
    return true
  }

  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#events.onStopped(listener)
  }

  async usage(machine: Machine, pid: number): Promise<UsageSample> {
    return this.#usage.read(this.#names.nameOf(machine), machine.nic.device, pid, this.#diskOf(machine))
  }

  /** Finds the disk of the pool once: it does not move while the agent runs, and each search reads all mounts. */
  #diskOf({ volume }: Machine): string | undefined {
    const folder = dirname(volume)
    if (!this.#disks.has(folder)) this.#disks.set(folder, findDiskNumbers(volume))
    return this.#disks.get(folder)
  }

  async resize(machine: Machine): Promise<ResizeResult> {
    const name = this.#names.nameOf(machine)
    const facts = configFacts(this.#place, machine, name)
    const lines = planConfig(machine, facts) // checks every value before anything is written
    const { init } = this.#runtime.read(name)
    try {
      const bounded = init ? boundGroups(this.facts.cgroups, name) : false
      const resized = init
        ? resizeGroups(this.facts.cgroups, `lxc.payload.${name}`, { limits: limitsOf(machine), facts })
        : false
      const rewritten = await this.#configs.ensure(name, machine.uuid, lines)
      return { outcome: init ? 'applied' : 'at_next_start', changed: rewritten || resized || bounded }
    } catch (error) {
      if (error instanceof BerthError && error.code === 'memory_in_use') return { outcome: 'refused', error }
      throw error
    }
  }

  async assignAddresses(machine: Machine, gone: readonly string[]): Promise<AssignResult> {
    const name = this.#names.nameOf(machine)
    const { init } = this.#runtime.read(name)
    if (!init) return 'unchanged'
    const lines = planConfig(machine, configFacts(this.#place, machine, name))
    const rewritten = await this.#configs.ensure(name, machine.uuid, lines)
    const assigned = await assignLxcAddresses(init, machine.nic, gone)
    return assigned || rewritten ? 'applied' : 'unchanged'
  }

  async connect(machine: Machine): Promise<boolean> {
    const { init, state } = this.#runtime.read(this.#names.nameOf(machine))
    return init !== undefined && state === 'running' && connectGuest(init, machine.nic)
  }

  async setPassword(machine: Machine, password: string): Promise<PasswordResult> {
    const { state } = this.#runtime.read(this.#names.freeNameOf(machine))
    if (state === 'starting' || state === 'stopping')
      throw conflict('guest_busy', `the guest is ${state}: try again later`)
    const running = state === 'running' ? this.#container(machine) : undefined
    const filter = planSocketFilter(this.options.allow ?? [])
    await setRootPassword(machine.volume, running, { password, filter })
    return 'applied'
  }

  async overridePassword(machine: Machine, password: string): Promise<PasswordResult> {
    const pids = this.#runtime.payloadPids(this.#names.freeNameOf(machine))
    await overrideRootPassword(machine.volume, password, pids)
    return 'applied'
  }

  async readLogin({ volume }: Machine): Promise<CurrentLogin | undefined> {
    const { shadowField, authorizedKeys } = await readRootLogin(volume)
    return parseCurrentLogin(shadowField, authorizedKeys)
  }

  freeze(machine: Machine, timeoutMs: number): Promise<boolean> {
    return freezeGuest(this.facts.cgroups, this.#names.nameOf(machine), timeoutMs)
  }

  async thaw(machine: Machine): Promise<void> {
    thawContainer(this.facts.cgroups, this.#names.nameOf(machine))
  }

  async findConsole(machine: Machine, mode: ConsoleMode): Promise<ConsolePlace> {
    if (mode === 'vnc') throw conflict('unsupported', 'only virtual machines have a screen')
    const { state, monitor } = this.#runtime.read(this.#names.nameOf(machine))
    if (state !== 'running' || !monitor) throw conflict('guest_not_running', 'the guest is not running')
    const container = this.#container(machine)
    if (mode === 'serial') return { kind: 'program', ...lxcConsole(container) }
    const terminals = findTerminals(monitor.pid)
    const filter = planSocketFilter(this.options.allow ?? [])
    const shell = lxcShell(container, { filter, terminals, root: machine.isolation.userIdBase })
    return { kind: 'guest-terminal', ...shell }
  }

  screenshot(): Promise<Buffer> {
    return Promise.reject(conflict('unsupported', 'only virtual machines have a screen'))
  }

  /** Stops watching. Guests keep running. */
  close(): void {
    this.#events.close()
  }

  /** Shuts down every guest with this prefix, in the journal or not, and kills those that take too long. */
  stopAll(): Promise<void> {
    const { namePrefix, stopTimeoutMs } = this.options
    const clearMark = (name: string): void => this.#events.clearMark(name)
    return stopAll({ ...this.#context, configs: this.#configs, namePrefix, clearMark }, stopTimeoutMs)
  }

  /**
   * Kills every guest with this prefix, in the journal or not, and removes everything that the driver has created on
   * the host. The driver is unusable afterwards.
   */
  async removeAll(): Promise<void> {
    this.close()
    await removeAll(this.#context, this.#configs, this.options.namePrefix)
  }

  /** Does nothing if the name belongs to another guest: this guest is then not on the host. */
  async #ending(machine: Machine, act: (target: StopTarget) => Promise<void>): Promise<void> {
    if (this.#names.isForeign(machine)) return
    const name = this.#names.nameOf(machine)
    return this.#events.whileBusy(name, async () => {
      thawContainer(this.facts.cgroups, name) // a frozen guest would not end even when killed
      await act({ name, device: machine.nic.device })
      this.#usage.forget(name)
      this.#events.forget(name)
    })
  }

  /**
   * Removes the configuration in the background, as this takes tens of milliseconds while the journal is synced. If it
   * is left over, it is only a trace of a guest known as removed.
   */
  #discardConfig(name: string): void {
    this.#configs
      .remove(name)
      .catch((err: unknown) => this.options.log.warn({ err, name }, 'configuration left behind'))
  }

  get #context(): LxcStopContext {
    return { paths: this.paths, runtime: this.#runtime }
  }

  #container(machine: Machine): { lxcPath: string; name: string } {
    return { lxcPath: this.paths.lxcPath, name: this.#names.nameOf(machine) }
  }
}

/** Writes lxc's support files and starts to watch for guests that end. */
export async function createLxcDriver(options: LxcDriverOptions): Promise<LxcDriver> {
  const paths = lxcPaths(options)
  await ensureSupportFiles(paths, options.allow ?? [])
  return new LxcDriver(options, paths, readHostFacts())
}
