import { untilAborted } from './until-aborted.js'

/** Limits the total time for which a caller waits for something that it cannot trust to be fast. */
export class WaitBudget {
  /**
   * @param leftMs total time in ms
   * @param spent creates the error for a wait that exceeds the total time
   */
  constructor(
    private leftMs: number,
    private readonly spent: () => Error,
  ) {}

  /** Waits for a promise. Rejects when the waits have used up the total time; the promise then continues. */
  async wait<T>(promise: Promise<T>): Promise<T> {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(this.spent()), Math.max(0, this.leftMs))
    const startMs = performance.now()
    try {
      return await untilAborted(promise, late.signal)
    } finally {
      clearTimeout(timer)
      this.leftMs -= performance.now() - startMs
    }
  }
}
