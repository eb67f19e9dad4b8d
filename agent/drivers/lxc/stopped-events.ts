import { rmSync, watch, type FSWatcher } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { isSameProcess, isThere, listDirectory } from '../../host/proc.js'
import type { StopCause } from '../contract.js'
import { isGone, type Runtime, type RuntimeReader } from './runtime.js'
import { isSoWithin } from './wait.js'

interface Known {
  readonly uuid: string
  readonly pid: number
  readonly startTime: number
}

export interface StoppedEventsOptions {
  readonly marksDir: string
  readonly runtime: RuntimeReader
  /** Undefined for a name without a configuration. */
  readonly uuidOf: (name: string) => string | undefined
  readonly log: Logger
}

const lookIntervalMs = 1000
/** Every so many looks it is also made sure that a pid is not another process' by now. */
const thoroughLooks = 5
const monitorEndTimeoutMs = 10_000

/**
 * Tells of guests that end without having been asked to. A clean end leaves a mark (support-files.ts):
 * seen at once, or at the next start of the agent. A guest whose monitor died leaves none: a look at every
 * known first process each second finds it, at some 1 µs each.
 */
export class StoppedEvents {
  readonly #known = new Map<string, Known>()
  /** Names with a start, stop or deletion of ours under way: their ends are no news. */
  readonly #busy = new Map<string, number>()
  readonly #checking = new Set<string>()
  readonly #listeners: ((uuid: string, cause: StopCause) => void)[] = []
  readonly #timer: NodeJS.Timeout
  #looks = 0
  readonly #watcher: FSWatcher

  constructor(private readonly options: StoppedEventsOptions) {
    this.#watcher = watch(options.marksDir, { persistent: false }, (_event, name) => {
      if (name && !name.includes('.')) void this.#check(name)
    })
    this.#watcher.on('error', (err) => options.log.warn({ err }, 'watch marks of ended guests'))
    this.#timer = setInterval(() => this.#look(), lookIntervalMs)
    this.#timer.unref()
  }

  /** Marks from before are told to the first listener. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void {
    this.#listeners.push(listener)
    for (const name of this.#listMarks()) void this.#check(name)
  }

  /** Keeps an eye on a running guest. */
  track(name: string, uuid: string, { init }: Runtime): void {
    if (init) this.#known.set(name, { uuid, pid: init.pid, startTime: init.startTime })
  }

  /** While `act` runs, the guest's end is the driver's own doing. */
  async whileBusy<T>(name: string, act: () => Promise<T>): Promise<T> {
    this.#busy.set(name, (this.#busy.get(name) ?? 0) + 1)
    try {
      return await act()
    } finally {
      const left = (this.#busy.get(name) ?? 1) - 1
      if (left > 0) this.#busy.set(name, left)
      else this.#busy.delete(name)
    }
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
    if (this.#busy.has(name) || this.#checking.has(name) || this.#listeners.length === 0) return
    this.#checking.add(name)
    try {
      await this.#report(name)
    } catch (err) {
      this.options.log.error({ err, name }, 'look after an ended guest')
    } finally {
      this.#checking.delete(name)
    }
  }

  /** The mark comes shortly before the monitor's end, and an init that is gone may be a reboot's. */
  async #report(name: string): Promise<void> {
    // Removing a mark is an event as well.
    if (!this.#known.has(name) && !this.#listMarks().includes(name)) return
    const uuid = this.#known.get(name)?.uuid ?? this.options.uuidOf(name)
    if (uuid === undefined) return this.forget(name)
    let now = this.options.runtime.read(name)
    await isSoWithin(
      () => {
        now = this.options.runtime.read(name)
        return now.state === 'running' || isGone(now)
      },
      { timeoutMs: monitorEndTimeoutMs },
    )
    if (this.#busy.has(name)) return
    if (!isGone(now)) return this.track(name, uuid, now)
    const cause = this.#listMarks().includes(name) ? 'guest' : 'crash'
    this.forget(name)
    for (const listener of this.#listeners) listener(uuid, cause)
  }
}
