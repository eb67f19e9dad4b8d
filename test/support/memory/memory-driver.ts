import { conflict } from '../../../shared/errors.js'
import type { HostVolumes } from '../../../agent/daemon/host.js'
import type {
  AssignResult,
  ConsoleMode,
  ConsolePlace,
  Driver,
  DriverCapabilities,
  DriverDescription,
  ObservedGuest,
  PasswordResult,
  ResizeResult,
  StopCause,
  UsageSample,
} from '../../../agent/drivers/contract.js'
import {
  systemVolumeOf,
  type CurrentLogin,
  type Login,
  type Machine,
  type VolumeCopy,
} from '../../../agent/drivers/machine.js'

/** Hooks that a test sets, by the names of calls. A hook may wait, or throw an error of the host. */
export type Faults = Partial<
  Record<
    keyof Driver | keyof HostVolumes | 'make' | 'removeImage',
    /** @param diskBytes new size of a disk, if it is resized */
    (id: string, diskBytes?: number) => void | Promise<void>
  >
>

const startTime = 1
const capabilities: DriverCapabilities = {
  consoles: ['text'],
  liveResize: ['vcpu', 'memory_up', 'memory_down', 'disk', 'io'],
  freeze: true,
  setPassword: ['running', 'stopped'],
  snapshotRunning: true,
}

/** Implements a driver in memory: guests are entries of maps, which are kept when the agent ends. */
export class MemoryDriver implements Driver {
  readonly kind = 'lxc'
  readonly stopTimeoutMs = 1000
  readonly configured = new Set<string>()
  /** Logins of guests, by the path of the volume. */
  readonly logins = new Map<string, Login>()
  /** Passwords that were set after the creation, by the UUID of the guest. */
  readonly passwords = new Map<string, string>()
  /** Pids of running guests, by UUID. */
  readonly running = new Map<string, number>()
  /** Volume that each guest has booted last, by the UUID of the guest. */
  readonly booted = new Map<string, string>()
  /** Result of every assignment of new addresses to a guest. */
  assigned: AssignResult = 'unchanged'
  sample: UsageSample = { cpuUsec: 1_000_000, memoryBytes: 1_048_576, rxBytes: 10, txBytes: 20, runnable: 0 }
  /** Path of the socket that serves the screen of every guest. */
  screen: string | undefined
  constructor(private readonly faults: Faults) {}

  #pids = 4_200_000 // above the pids of every kernel, so that no real process has one of them
  #stopped: (uuid: string, cause: StopCause) => void = () => undefined

  async describe(): Promise<DriverDescription> {
    return { available: true, acceleration: '', capabilities }
  }

  async readProcessors(): Promise<ReadonlyMap<string, readonly number[]>> {
    return new Map()
  }

  volumeLimitBytes({ limits }: Machine): number {
    return limits.diskBytes
  }

  async prepareEmpty(): Promise<void> {
    // A simulated guest has no files.
  }

  async trimFetched(): Promise<void> {
    // Nothing to trim: a simulated guest has no files.
  }

  async configure(machine: Machine): Promise<void> {
    await this.#meet('configure', machine)
    this.configured.add(machine.uuid)
  }

  async start(machine: Machine, signal: AbortSignal, connected?: () => Promise<void>): Promise<void> {
    await this.#meet('start', machine)
    signal.throwIfAborted()
    if (!this.running.has(machine.uuid)) this.booted.set(machine.uuid, systemVolumeOf(machine))
    this.run(machine.uuid)
    await connected?.()
  }

  /** Marks a guest as running. */
  run(uuid: string): void {
    if (!this.running.has(uuid)) this.running.set(uuid, ++this.#pids)
  }

  /** Logins that the owner has changed inside the guest, by UUID. */
  readonly currentLogins = new Map<string, CurrentLogin>()

  async readLogin({ uuid }: Machine): Promise<CurrentLogin | undefined> {
    return this.currentLogins.get(uuid)
  }

  async prepareLogin(login: Login): Promise<Login> {
    return login
  }

  async initialize(machine: Machine, login: Login, volume: string): Promise<void> {
    await this.#meet('initialize', machine)
    this.logins.set(volume, login)
  }

  adopt(machine: Machine, login: Login, { volume }: VolumeCopy): Promise<void> {
    return this.initialize(machine, login, volume)
  }

  async stop(machine: Machine): Promise<void> {
    await this.#meet('stop', machine)
    this.running.delete(machine.uuid)
  }

  async kill(machine: Machine): Promise<void> {
    await this.#meet('kill', machine)
    this.running.delete(machine.uuid)
  }

  /** Ends a guest without a request, as if the guest ended by itself or another program stopped it. */
  end(uuid: string, cause: StopCause): void {
    if (this.running.delete(uuid)) this.#stopped(uuid, cause)
  }

  async delete(machine: Machine): Promise<void> {
    await this.#meet('delete', machine)
    this.configured.delete(machine.uuid)
    this.logins.delete(machine.volume)
  }

  async observe(): Promise<ObservedGuest[]> {
    return [...this.running].map(([uuid, pid]) => ({ uuid, state: 'running', pid, startTime }))
  }

  async listTraces(): Promise<string[]> {
    return [...this.configured]
  }

  async removeTraces(uuid: string): Promise<boolean> {
    if (this.running.has(uuid)) return false
    this.configured.delete(uuid)
    return true
  }

  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#stopped = listener
  }

  async usage(machine: Machine): Promise<UsageSample> {
    await this.#meet('usage', machine)
    return this.sample
  }

  async resize(machine: Machine): Promise<ResizeResult> {
    await this.#meet('resize', machine)
    return { outcome: 'applied', changed: false }
  }

  async assignAddresses(machine: Machine): Promise<AssignResult> {
    await this.#meet('assignAddresses', machine)
    return this.assigned
  }

  async connect(machine: Machine): Promise<boolean> {
    await this.#meet('connect', machine)
    return false
  }

  async setPassword(machine: Machine, password: string): Promise<PasswordResult> {
    await this.#meet('setPassword', machine)
    this.passwords.set(machine.uuid, password)
    this.logins.set(machine.volume, { ...this.logins.get(machine.volume), password })
    return 'applied'
  }

  async freeze(machine: Machine): Promise<boolean> {
    await this.#meet('freeze', machine)
    return this.running.has(machine.uuid)
  }

  thaw(machine: Machine): Promise<void> {
    return this.#meet('thaw', machine)
  }

  async findConsole(machine: Machine, mode: ConsoleMode, command: readonly string[] = []): Promise<ConsolePlace> {
    await this.#meet('findConsole', machine)
    if (!this.running.has(machine.uuid)) throw conflict('guest_not_running', 'the guest is not running')
    if (mode !== 'vnc') return { kind: 'program', program: mode, args: [machine.uuid, ...command], env: {} }
    if (!this.screen) throw conflict('unsupported', 'no screen')
    return { kind: 'socket', path: this.screen }
  }

  async screenshot(machine: Machine): Promise<Buffer> {
    await this.#meet('screenshot', machine)
    return Buffer.from('89504e470d0a1a0a', 'hex')
  }

  async #meet(method: keyof Driver, { uuid }: Machine): Promise<void> {
    await this.faults[method]?.(uuid)
  }
}
