import { KeyedSingleFlight } from '../../../shared/async/single-flight.js'
import { rmSync, watch, type FSWatcher } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { isSameProcess, isThere, listDirectory } from '../../host/process/proc.js'
import type { StopCause } from '../contract.js'
import { isRuntimeGone, type LxcRuntime, type LxcRuntimeReader } from './runtime.js'
import { BusyNames } from '../common/busy-names.js'
import { isSoWithin } from '../common/wait.js'

interface TrackedGuest {
  readonly uuid: string
  readonly pid: number
  readonly startTime: number
}

export interface StoppedEventsOptions {
  readonly marksDir: string
  readonly runtime: LxcRuntimeReader
  /** Returns the uuid of a guest, or undefined if the name has no configuration. */
  readonly uuidOf: (name: string) => string | undefined
  /** True if the kernel killed this ended process because memory ran out. */
  readonly ranOutOfMemory: (pid: number) => boolean
  readonly log: Logger
}

const lookIntervalMs = 1000
/** Every 15th poll also checks whether pids were reused by other processes. */
const thoroughLooks = 15
const monitorEndTimeoutMs = 10_000

/**
 * Reports guests that ended without a request. After a clean end, a hook leaves a mark file (support-files.ts), which
 * the agent notices immediately or at its next start. If the monitor was killed, no hook runs. Therefore the first
 * process of each guest is also checked every second, which takes about 1 µs.
 */
export class StoppedEvents {
  readonly #known = new Map<string, TrackedGuest>()
  readonly #busy = new BusyNames()
  readonly #checking = new KeyedSingleFlight<string>()
  readonly #listeners: ((uuid: string, cause: StopCause) => void)[] = []
  readonly #timer: NodeJS.Timeout
  #looks = 0
  readonly #watcher: FSWatcher

  constructor(private readonly options: StoppedEventsOptions) {
    this.#watcher = watch(options.marksDir, { persistent: false }, (_event, name) => {
      if (name && !name.includes('.')) void this.#check(name)
    })
    this.#watcher.on('error', (err) =>
      options.log.warn({ err }, 'could not watch for guests that end; the regular checks find them later'),
    )
    this.#timer = setInterval(() => this.#look(), lookIntervalMs)
    this.#timer.unref()
  }

  /** Adds a listener. The first listener is also called for guests that ended before it was added. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#listeners.push(listener)
    for (const name of this.#listMarks()) void this.#check(name)
  }

  track(name: string, uuid: string, { init }: LxcRuntime): void {
    if (init) this.#known.set(name, { uuid, pid: init.pid, startTime: init.startTime })
  }

  /** Runs `act`. If the guest ends during this time, the end is not reported. */
  whileBusy<T>(name: string, act: () => Promise<T>): Promise<T> {
    return this.#busy.while(name, act)
  }

  forget(name: string): void {
    this.#known.delete(name)
    this.clearMark(name)
  }

  clearMark(name: string): void {
    for (const mark of [name, `${name}.rebooted`]) rmSync(join(this.options.marksDir, mark), { force: true })
  }

  close(): void {
    clearInterval(this.#timer)
    this.#watcher.close()
  }

  /** Checks memory kills first, because the hook leaves its mark file even if the kernel killed the guest's init. */
  #causeOf(name: string): StopCause {
    const init = this.#known.get(name)?.pid
    if (init !== undefined && this.options.ranOutOfMemory(init)) return 'memory'
    return this.#listMarks().includes(name) ? 'guest' : 'crash'
  }

  #listMarks(): string[] {
    return listDirectory(this.options.marksDir).filter((name) => !name.includes('.'))
  }

  #look(): void {
    const thorough = this.#looks++ % thoroughLooks === 0
    for (const [name, { pid, startTime }] of this.#known)
      if (!isThere(pid) || (thorough && !isSameProcess(pid, startTime))) void this.#check(name)
    for (const name of this.#listMarks()) void this.#check(name)
  }

  async #check(name: string): Promise<void> {
    if (this.#busy.has(name) || this.#listeners.length === 0) return
    try {
      await this.#checking.run(name, () => this.#report(name))
    } catch (err) {
      this.options.log.error({ err, name }, 'could not check whether a guest has ended')
    }
  }

  /** Reports the guest's end after its monitor has ended. If the guest has only rebooted, watches it again instead. */
  async #report(name: string): Promise<void> {
    // The watcher also calls this function after the agent has removed a mark file. Then there is nothing to report.
    if (!this.#known.has(name) && !this.#listMarks().includes(name)) return
    const uuid = this.#known.get(name)?.uuid ?? this.options.uuidOf(name)
    if (uuid === undefined) return this.forget(name)
    let now = this.options.runtime.read(name)
    await isSoWithin(
      () => {
        now = this.options.runtime.read(name)
        return now.state === 'running' || isRuntimeGone(now)
      },
      { timeoutMs: monitorEndTimeoutMs },
    )
    if (this.#busy.has(name)) return
    if (!isRuntimeGone(now)) return this.track(name, uuid, now)
    const cause = this.#causeOf(name)
    this.forget(name)
    for (const listener of this.#listeners) listener(uuid, cause)
  }
}
