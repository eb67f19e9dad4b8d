import { existsSync, writeFileSync } from 'node:fs'
import type { Logger } from 'pino'
import { KeyedSingleFlight } from '../../../shared/async/single-flight.js'
import { conflict } from '../../../shared/errors.js'
import { isSameProcess, isThere, type ProcessStat } from '../../host/process/proc.js'
import type { GuestEvent, StopCause } from '../contract.js'
import { BusyNames } from '../common/busy-names.js'
import { isSoWithin } from '../common/wait.js'
import { boundLog } from './bound-log.js'
import type { QemuPaths } from './paths.js'
import { QmpConnection, type MachineEvent } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'
import type { QemuRuntimeReader } from './runtime.js'

/** A guest whose QEMU is running. */
interface Machine {
  readonly uuid: string
  readonly process: ProcessStat
  monitor?: QmpConnection
  /** True if the guest has shut down and its QEMU waits to be ended. */
  shutDown: boolean
  /** Time in ms of the last log entry for each event. Limits the log, because a guest can cause endless events. */
  readonly loggedMs: Map<string, number>
}

export interface MachinesOptions {
  readonly paths: QemuPaths
  readonly runtime: QemuRuntimeReader
  readonly uuidOf: (name: string) => string | undefined
  readonly listNames: () => readonly string[]
  /** Ends QEMU's process and removes what the guest left on the host. */
  readonly clear: (name: string) => Promise<void>
  /** True if the kernel killed this ended process because memory ran out. */
  readonly ranOutOfMemory: (pid: number) => boolean
  /** Reports an event of the guest's system, which keeps running. */
  readonly onEvent: (name: string, uuid: string, event: GuestEvent) => void
  readonly log: Logger
}

/** Timeout in ms of a command. Even with a tenth of a processor, QEMU answers in 100 ms. A busy host is slower. */
const commandTimeoutMs = 5000
const lookIntervalMs = 1000
const endTimeoutMs = 5000
/** Minimum time in ms between two log entries for the same event of a guest. */
const logPauseMs = 60_000

const loggedEvents: Readonly<Record<string, string>> = {
  GUEST_PANICKED: 'the kernel of the guest panicked',
  BLOCK_IO_ERROR: 'the disk of the guest had an error',
}

/**
 * Watches running guests through connections to their monitors, and reports guests that have ended. After a clean
 * shutdown, QEMU stays paused, so that even an agent that starts later notices the shutdown. If a guest's QEMU no
 * longer exists, the guest crashed or was killed. This class never ends a running guest.
 */
export class Machines {
  readonly #machines = new Map<string, Machine>()
  readonly #busy = new BusyNames()
  readonly #opening = new KeyedSingleFlight<Machine, QmpConnection>()
  readonly #checking = new KeyedSingleFlight<string>()
  readonly #listeners: ((uuid: string, cause: StopCause) => void)[] = []
  readonly #timer: NodeJS.Timeout

  constructor(private readonly options: MachinesOptions) {
    this.#timer = setInterval(() => this.#look(), lookIntervalMs)
    this.#timer.unref()
  }

  /** Adds a listener. The first listener also gets the guests that ended before a listener existed. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#listeners.push(listener)
    for (const name of this.options.listNames()) void this.#check(name)
  }

  track(name: string, uuid: string, process: ProcessStat): void {
    const known = this.#machines.get(name)
    if (known?.process.pid === process.pid && known.process.startTime === process.startTime) return
    known?.monitor?.close()
    this.#machines.set(name, { uuid, process, shutDown: false, loggedMs: new Map() })
    void this.monitor(name).catch(() => undefined) // a failed connection is retried every second
  }

  /**
   * Returns the connection to the guest's monitor, and opens one if necessary.
   * @throws {BerthError} `guest_not_running`, and the errors of `QmpConnection.open`
   */
  async monitor(name: string, timeoutMs = commandTimeoutMs): Promise<QmpConnection> {
    const machine = this.#machines.get(name)
    if (!machine) throw conflict('guest_not_running', 'the guest is not running')
    if (machine.monitor && !machine.monitor.closed) return machine.monitor
    return this.#opening.run(machine, () => this.#open(name, machine, timeoutMs))
  }

  /** True if the guest has shut down and its QEMU waits to be ended. */
  hasShutDown(name: string): boolean {
    return this.#machines.get(name)?.shutDown ?? false
  }

  /** Runs `act`. If the guest ends during this time, the end is not reported. */
  whileBusy<T>(name: string, act: () => Promise<T>): Promise<T> {
    return this.#busy.while(name, act)
  }

  forget(name: string): void {
    const machine = this.#machines.get(name)
    this.#machines.delete(name) // deleted before `close()`, because its event calls `#check`
    machine?.monitor?.close()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#listeners.length = 0
    for (const name of [...this.#machines.keys()]) this.forget(name)
  }

  async #open(name: string, machine: Machine, timeoutMs: number): Promise<QmpConnection> {
    const monitor = await QmpConnection.open({
      path: this.options.paths.runOf(name).monitor,
      timeoutMs,
      greets: true,
      onEvent: (event) => this.#hear(name, machine, event),
      onClose: () => void this.#check(name),
    })
    monitor.unref()
    if (this.#machines.get(name) !== machine) {
      monitor.close()
      throw conflict('guest_not_running', 'the guest is not running')
    }
    machine.monitor = monitor
    void this.#readStatus(name, machine, monitor)
    return monitor
  }

  /** Checks whether the guest shut down before the connection opened. If this fails, a new connection checks again. */
  async #readStatus(name: string, machine: Machine, monitor: QmpConnection): Promise<void> {
    const answer = await monitor.execute('query-status').catch(() => monitor.close())
    if (objectOf(answer)?.['status'] === 'shutdown') this.#noteShutDown(name, machine)
  }

  #hear(name: string, machine: Machine, { name: event, data }: MachineEvent): void {
    if (event === 'SHUTDOWN' && data['guest'] === true) this.#noteShutDown(name, machine)
    if (event === 'RESET') this.options.onEvent(name, machine.uuid, 'rebooted')
    const logged = loggedEvents[event]
    if (logged === undefined || !this.#isNews(machine, event)) return
    this.options.log.warn({ guest: machine.uuid }, logged)
    if (event === 'GUEST_PANICKED') this.options.onEvent(name, machine.uuid, 'panicked')
  }

  #isNews({ loggedMs }: Machine, event: string): boolean {
    const nowMs = performance.now()
    if (nowMs - (loggedMs.get(event) ?? -Infinity) < logPauseMs) return false
    loggedMs.set(event, nowMs)
    return true
  }

  #noteShutDown(name: string, machine: Machine): void {
    machine.shutDown = true
    void this.#check(name)
  }

  #look(): void {
    for (const [name, { process, monitor, shutDown }] of this.#machines) {
      this.#boundLog(name)
      if (shutDown || !isThere(process.pid) || !monitor || monitor.closed) void this.#check(name)
    }
  }

  #boundLog(name: string): void {
    try {
      boundLog(this.options.paths.runOf(name).log)
    } catch (err) {
      this.options.log.warn({ err, name }, 'could not limit the size of the log of a virtual machine')
    }
  }

  async #check(name: string): Promise<void> {
    if (this.#busy.has(name) || this.#listeners.length === 0) return
    try {
      await this.#checking.run(name, () => this.#examine(name))
    } catch (err) {
      this.options.log.warn({ err, name }, 'could not check the state of a virtual machine')
    }
  }

  async #examine(name: string): Promise<void> {
    const { uuidOf, runtime } = this.options
    const machine = this.#machines.get(name)
    const uuid = machine?.uuid ?? uuidOf(name)
    if (uuid === undefined) return
    if (machine?.shutDown) return this.#end(name, uuid, 'guest')
    const { process, state } = runtime.read(name)
    if (state === 'stopped') return this.#examineStopped(name, uuid, machine)
    if (state === 'running' && process) this.track(name, uuid, process)
    await this.monitor(name)
  }

  /** Reports the guest's end if QEMU has ended or the guest has shut down. A lost connection does not prove this. */
  async #examineStopped(name: string, uuid: string, machine: Machine | undefined): Promise<void> {
    const { paths } = this.options
    if (existsSync(paths.runOf(name).ended)) return this.#end(name, uuid, 'guest')
    if (machine && !isSameProcess(machine.process.pid, machine.process.startTime))
      await this.#end(name, uuid, this.options.ranOutOfMemory(machine.process.pid) ? 'memory' : 'crash')
  }

  /** Ends QEMU and reports the guest's end. The file `ended` records a shutdown, in case this agent is killed. */
  async #end(name: string, uuid: string, cause: StopCause): Promise<void> {
    if (this.#busy.has(name)) return
    if (cause === 'guest') writeFileSync(this.options.paths.runOf(name).ended, '', { mode: 0o600 })
    await this.whileBusy(name, () => this.options.clear(name))
    this.forget(name)
    for (const listener of this.#listeners) listener(uuid, cause)
  }

  /** Waits for the guest's shutdown. @returns true if the guest has shut down within `timeoutMs` */
  waitForShutDown(name: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean> {
    const { runtime } = this.options
    return isSoWithin(() => this.hasShutDown(name) || runtime.read(name).state === 'stopped', options)
  }

  /** Asks QEMU to end. The caller must check whether QEMU has ended. */
  async quit(name: string): Promise<void> {
    const monitor = await this.monitor(name, endTimeoutMs).catch(() => undefined)
    await monitor?.execute('quit', undefined, endTimeoutMs).catch(() => undefined) // QEMU can hang up before it answers
  }
}
