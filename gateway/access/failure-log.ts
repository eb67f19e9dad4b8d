import type { Logger } from 'pino'
import { BerthError } from '../../shared/errors.js'

const windowMs = 10_000
const linesPerWindow = 10

/** Logs a few rejections of callers in each period, and then one line with the number of further rejections. */
export class FailureLog {
  #windowEndMs = 0
  #lines = 0
  #silenced = 0

  constructor(private readonly log: Logger) {}

  note(error: unknown, address: string, nowMs = Date.now()): void {
    if (!(error instanceof BerthError) || error.code === 'store_unavailable') return
    if (nowMs >= this.#windowEndMs) this.#openWindow(nowMs)
    if (this.#lines >= linesPerWindow) return void this.#silenced++
    this.#lines++
    this.log.warn({ code: error.code, address }, 'an authentication was refused')
  }

  #openWindow(nowMs: number): void {
    if (this.#silenced > 0)
      this.log.warn({ count: this.#silenced }, 'further refused authentications were not logged one by one')
    this.#windowEndMs = nowMs + windowMs
    this.#lines = 0
    this.#silenced = 0
  }
}
