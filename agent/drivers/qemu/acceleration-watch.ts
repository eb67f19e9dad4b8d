import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import { SingleFlight } from '../../../shared/async/single-flight.js'
import { findAcceleration, type Acceleration } from './acceleration.js'

export interface AccelerationWatchOptions {
  readonly log: Logger
  /** Finds the acceleration. The default function starts a test guest of a few instructions. */
  readonly find?: () => Promise<Acceleration>
  /** Interval in ms between two checks; default 10 min. */
  readonly everyMs?: number
  /** Time in ms between a failed check of kvm and the second check, which confirms the failure; default 10 s. */
  readonly confirmMs?: number
}

/**
 * Checks at intervals whether guests can use kvm, because the kernel module can be loaded later and /dev/kvm can begin
 * to hang. A running guest keeps its acceleration. kvm is given up only after two failed checks in a row, because a
 * single check can fail on a busy host.
 */
export class AccelerationWatch {
  readonly #looking = new SingleFlight()
  readonly #timer: NodeJS.Timeout
  readonly #closing = new AbortController()

  private constructor(
    private readonly options: AccelerationWatchOptions & { readonly find: () => Promise<Acceleration> },
    private current: Acceleration,
  ) {
    this.#timer = setInterval(() => void this.look(), options.everyMs ?? 600_000)
    this.#timer.unref()
  }

  static async open(options: AccelerationWatchOptions): Promise<AccelerationWatch> {
    const { find = findAcceleration } = options
    return new AccelerationWatch({ ...options, find }, await find())
  }

  get now(): Acceleration {
    return this.current
  }

  /** Checks the acceleration again. Calls during a check share its result. The promise never rejects. */
  look(): Promise<void> {
    return this.#looking.run(() => this.#look())
  }

  close(): void {
    clearInterval(this.#timer)
    this.#closing.abort()
  }

  async #look(): Promise<void> {
    const { find, log, confirmMs = 10_000 } = this.options
    try {
      let found = await find()
      if (found.kind === 'tcg' && this.current.kind === 'kvm') {
        await pause(confirmMs, undefined, { ref: false, signal: this.#closing.signal })
        found = await find()
      }
      const { kind, reason } = found
      if (kind !== this.current.kind)
        log.warn(
          { kind, reason },
          'the acceleration of virtual machines changed: those that start from now on use the new kind',
        )
      this.current = found
    } catch (err) {
      if (!this.#closing.signal.aborted) log.warn({ err }, 'could not check whether virtual machines can use KVM')
    }
  }
}
