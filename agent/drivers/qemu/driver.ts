import { mkdir } from 'node:fs/promises'
import type { Logger } from 'pino'
import { allEnded } from '../../../shared/all-ended.js'
import { conflict } from '../../../shared/errors.js'
import { disableCopyOnWrite } from '../../host/disk/btrfs.js'
import { readGroupFacts, type GroupFacts } from '../common/group-facts.js'
import { GroupMoves } from '../../host/process/group-moves.js'
import type { MemoryKills } from '../../host/process/memory-kills.js'
import { withHash } from '../common/login-hash.js'
import type {
  AssignResult,
  ConsoleMode,
  ConsolePlace,
  Driver,
  DriverDescription,
  GuestEvent,
  ObservedGuest,
  PasswordResult,
  ResizeResult,
  StopCause,
  UsageSample,
} from '../contract.js'
import { systemVolumeOf, type CurrentLogin, type Login, type Machine, type VolumeCopy } from '../machine.js'
import { QemuAccess } from './access.js'
import type { Acceleration } from './acceleration.js'
import { AccelerationWatch } from './acceleration-watch.js'
import { assignQemuAddresses, noteReboot } from './assign.js'
import { QemuConfigStore } from './config-store.js'
import { connectMachine } from './connect.js'
import { readDiskSystem } from './disk-system.js'
import { ensureFirmware } from './firmware.js'
import { fitDisk, growDisk, makeInstance, trimDisk, writeInstance } from './disk.js'
import { tellingHierarchy } from './groups.js'
import { FileSystemFreezer } from './freezing.js'
import { GuestNames } from '../common/guest-names.js'
import { listensInside } from './inside.js'
import { MachineUsage } from './machine-usage.js'
import { QemuLiveMoves } from './live.js'
import { Machines } from './machines.js'
import { qemuPaths, type QemuPaths } from './paths.js'
import { observeMachines, readMachineProcessors } from './observe.js'
import { Power, type PowerContext } from './power.js'
import { resizeMachine } from './resize.js'
import { refuseLarge } from './received-files.js'
import { refuseUnsupported } from './start.js'
import { QemuRuntimeReader } from './runtime.js'
import { clearMachine } from './stop.js'

export interface QemuDriverOptions {
  /** Directory whose subdirectory `kvm` contains a directory for each guest. */
  readonly stateDir: string
  /** Directory whose subdirectory `kvm` contains the sockets of running guests. */
  readonly runDir: string
  /** A guest's name on the host is `<prefix>-<id>`. */
  readonly namePrefix: string
  readonly stopTimeoutMs: number
  /** Path of the host's key, which encrypts passwords. The key is created if it does not exist. */
  readonly keyFile: string
  /** Knows which processes were killed because memory ran out. If omitted, such a kill is reported as a crash. */
  readonly memoryKills?: MemoryKills
  /** Path of a CD with drivers for Windows. Undefined: this host has no such CD. */
  readonly driversCd?: string
  /** Finds the acceleration. The default function starts a test guest of a few instructions. */
  readonly findAcceleration?: () => Promise<Acceleration>
  readonly log: Logger
}

/** Runs virtual machines with QEMU (see contract.ts). {@link createQemuDriver} creates it. */
export class QemuDriver implements Driver {
  readonly kind = 'kvm'
  readonly #paths: QemuPaths
  readonly #facts: GroupFacts
  readonly #runtime: QemuRuntimeReader
  readonly #configs: QemuConfigStore
  readonly #machines: Machines
  readonly #names: GuestNames
  readonly #power: Power
  readonly #access: QemuAccess
  readonly #usage: MachineUsage
  readonly #freezing: FileSystemFreezer
  readonly #moves: GroupMoves
  readonly live: QemuLiveMoves
  readonly #listeners: ((uuid: string, event: GuestEvent) => void)[] = []

  constructor(
    private readonly options: QemuDriverOptions,
    private readonly acceleration: AccelerationWatch,
  ) {
    this.#paths = qemuPaths(options)
    this.#facts = readGroupFacts()
    this.#moves = new GroupMoves(this.#facts.cgroups)
    this.#runtime = new QemuRuntimeReader(tellingHierarchy(this.#facts.cgroups))
    this.#configs = new QemuConfigStore(this.#paths, options.namePrefix)
    this.#names = new GuestNames({ paths: this.#paths, configs: this.#configs, runtime: this.#runtime })
    this.#machines = new Machines({
      paths: this.#paths,
      runtime: this.#runtime,
      uuidOf: (name) => this.#configs.findUuid(name),
      listNames: () => this.#configs.listNames(),
      ranOutOfMemory: (pid) => options.memoryKills?.wasKilled(pid) ?? false,
      clear: (name) => clearMachine(this.#context, name),
      onEvent: (name, uuid, event) => this.#hear(name, uuid, event),
      log: options.log,
    })
    this.#usage = new MachineUsage(this.#paths, this.#machines, this.#facts)
    this.#power = new Power(this.#context)
    this.live = new QemuLiveMoves(() => this.#context)
    this.#access = new QemuAccess({ ...this.#context, keyFile: options.keyFile })
    this.#freezing = new FileSystemFreezer({
      runOf: (name) => this.#paths.runOf(name),
      listens: (name) => this.#listens(name),
      log: options.log,
    })
  }

  get stopTimeoutMs(): number {
    return this.options.stopTimeoutMs
  }

  async describe(): Promise<DriverDescription> {
    const { kind: acceleration, reason: accelerationReason } = this.acceleration.now
    return {
      available: true,
      acceleration,
      accelerationReason,
      capabilities: {
        consoles: ['text', 'vnc'],
        liveResize: ['memory_down', 'disk', 'io'],
        freeze: true,
        setPassword: ['running', 'stopped'],
        snapshotRunning: true,
      },
    }
  }

  /** Returns 0 (no quota), because the disk file has a fixed size. A quota would also count data of its snapshots. */
  volumeLimitBytes(): number {
    return 0
  }

  prepareLogin(login: Login): Promise<Login> {
    return withHash(login)
  }

  async initialize(machine: Machine, login: Login, volume: string): Promise<void> {
    const name = this.#names.freeNameOf(machine)
    if (volume === machine.volume && this.#runtime.read(name).state !== 'stopped')
      throw conflict('guest_running', 'stop the container first')
    await fitDisk(volume, machine.limits.diskBytes)
    const system = await readDiskSystem(volume)
    await writeInstance(volume, await makeInstance(login, system, this.options.keyFile))
  }

  /** Creates a new instance id, which makes cloud-init set the login again and create new SSH host keys. */
  adopt(machine: Machine, login: Login, { volume }: VolumeCopy): Promise<void> {
    return this.initialize(machine, login, volume)
  }

  prepareEmpty(volume: string): Promise<void> {
    return disableCopyOnWrite(volume)
  }

  trimFetched(volume: string): Promise<void> {
    return trimDisk(volume)
  }

  async checkReceived(volume: string, diskBytes: number): Promise<void> {
    refuseUnsupported(await readDiskSystem(volume))
    await refuseLarge(volume, diskBytes)
  }

  async configure(machine: Machine): Promise<void> {
    this.#moves.prepare()
    const name = this.#names.freeNameOf(machine)
    await this.#configs.write(name, { uuid: machine.uuid, device: machine.nic.device })
    await allEnded([
      growDisk(machine.volume, machine.limits.diskBytes), // a restored disk can be smaller than the limit
      ensureFirmware(systemVolumeOf(machine), machine.isolation.userIdBase),
      this.#access.tell(machine),
    ])
  }

  async start(machine: Machine, signal: AbortSignal, connected?: () => Promise<void>): Promise<void> {
    this.#moves.prepare()
    return this.#power.start(machine, { signal, ...(connected && { connected }) })
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
    return observeMachines(this.#context)
  }

  async readProcessors(): Promise<ReadonlyMap<string, readonly number[]>> {
    return readMachineProcessors(this.#context)
  }

  async listTraces(): Promise<string[]> {
    return this.#configs.listUuids()
  }

  removeTraces(uuid: string): Promise<boolean> {
    return this.#power.removeTraces(uuid)
  }

  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#machines.onStopped(listener)
  }

  onEvent(listener: (uuid: string, event: GuestEvent) => void): void {
    this.#listeners.push(listener)
  }

  #hear(name: string, uuid: string, event: GuestEvent): void {
    if (event === 'rebooted')
      noteReboot(this.#paths.runOf(name)).catch((err: unknown) =>
        this.options.log.warn({ err, name }, 'could not record the reboot of a virtual machine'),
      )
    for (const listener of this.#listeners) listener(uuid, event)
  }

  readDiskUse(machine: Machine): Promise<number | undefined> {
    return this.#usage.readDiskUse(machine, this.#name(machine))
  }

  async usage(machine: Machine, pid: number): Promise<UsageSample> {
    return this.#usage.read(machine, this.#name(machine), pid)
  }

  async resize(machine: Machine): Promise<ResizeResult> {
    return resizeMachine(this.#context, machine, this.#name(machine))
  }

  async assignAddresses(machine: Machine, gone: readonly string[]): Promise<AssignResult> {
    const name = this.#name(machine)
    if (this.#runtime.read(name).state !== 'running') return 'unchanged'
    return assignQemuAddresses(this.#paths.runOf(name), machine, { gone, tell: () => this.#access.tell(machine) })
  }

  async connect(machine: Machine): Promise<boolean> {
    const name = this.#name(machine)
    const { state, process } = this.#runtime.read(name)
    if (state !== 'running' || !process) return false
    return connectMachine(process.pid, this.#runtime.procsOf(name), machine.nic)
  }

  setPassword(machine: Machine, password: string): Promise<PasswordResult> {
    return this.#access.setPassword(machine, password)
  }

  readLogin(machine: Machine): Promise<CurrentLogin | undefined> {
    return this.#access.readLogin(machine)
  }

  async freeze(machine: Machine, timeoutMs: number): Promise<boolean> {
    return this.#freezing.freeze(this.#name(machine), timeoutMs)
  }

  async thaw(machine: Machine): Promise<void> {
    return this.#freezing.thaw(this.#name(machine))
  }

  async #listens(name: string): Promise<boolean> {
    if (this.#runtime.read(name).state !== 'running') return false
    const monitor = await this.#machines.monitor(name, 500).catch(() => undefined)
    return !monitor || listensInside(monitor)
  }

  async findConsole(machine: Machine, mode: ConsoleMode): Promise<ConsolePlace> {
    return this.#access.findConsole(machine, mode)
  }

  screenshot(machine: Machine): Promise<Buffer> {
    return this.#access.screenshot(machine)
  }

  /** Ends the watch for guests that end. The guests keep running. */
  close(): void {
    this.acceleration.close()
    this.#freezing.close()
    this.#machines.close()
  }

  /** Shuts down every guest of this agent, even one without a configuration file. Kills guests that take too long. */
  async stopAll(): Promise<void> {
    observeMachines(this.#context)
    // An abandoned snapshot may have left file systems frozen. A guest with frozen file systems could not shut down.
    await Promise.allSettled(this.#runtime.listNames(this.options.namePrefix).map((name) => this.#freezing.thaw(name)))
    return this.#power.stopAll(this.options.stopTimeoutMs)
  }

  /** Kills every guest, even one without a configuration file, and removes what the driver created, except volumes. */
  removeAll(): Promise<void> {
    return this.#power.removeAll()
  }

  get #context(): PowerContext {
    const { driversCd, namePrefix, log } = this.options
    return {
      log,
      paths: this.#paths,
      runtime: this.#runtime,
      machines: this.#machines,
      configs: this.#configs,
      facts: this.#facts,
      cgroups: this.#facts.cgroups,
      acceleration: this.acceleration,
      ...(driversCd === undefined ? {} : { driversCd }),
      names: this.#names,
      namePrefix,
      forget: (name) => this.#usage.forget(name),
    }
  }

  #name(machine: Machine): string {
    return this.#names.nameOf(machine)
  }
}

/** Creates the driver and its directories, and checks whether guests can use kvm. */
export async function createQemuDriver(options: QemuDriverOptions): Promise<QemuDriver> {
  const { configs, runs } = qemuPaths(options)
  for (const path of [configs, runs]) await mkdir(path, { recursive: true, mode: 0o700 })
  const { findAcceleration: find, log } = options
  return new QemuDriver(options, await AccelerationWatch.open({ log, ...(find ? { find } : {}) }))
}
