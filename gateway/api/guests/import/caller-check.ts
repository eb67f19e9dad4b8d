import { BerthError } from '../../../../shared/errors.js'

/** Number of successive checks that may fail because the store is not available. */
const mostOutages = 5

/** Checks repeatedly that a caller may still send its request. A short outage of the store does not end the request. */
export class CallerCheck {
  readonly #refused = new AbortController()
  #outages = 0
  #isRunning = false

  /** @param recheck rejects if the caller may no longer send the request */
  constructor(private readonly recheck: () => Promise<unknown>) {}

  /** Aborted when the caller may no longer send its request. */
  get signal(): AbortSignal {
    return this.#refused.signal
  }

  /** Never rejects. Has no effect while another check runs. */
  async run(): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    try {
      await this.recheck()
      this.#outages = 0
    } catch (error) {
      const isOutage = error instanceof BerthError && error.kind === 'unavailable'
      if (!isOutage || ++this.#outages > mostOutages) this.#refused.abort(error)
    } finally {
      this.#isRunning = false
    }
  }
}
