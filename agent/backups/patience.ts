import { readComplaint } from './plan-failure.js'

/** Failures that are further apart than this time in ms are unrelated. */
const breakMs = 60_000

/**
 * Limits how long a target may fail. restic itself retries for 15 minutes after any failure, and reports each failure
 * in a line.
 */
export class Patience {
  #sinceMs: number | undefined
  #lastMs = 0

  constructor(
    private readonly patienceMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Forgets earlier failures. Must be called after each success. */
  reset(): void {
    this.#sinceMs = undefined
  }

  /** Reads a line of restic's output. @returns whether the run should be ended */
  isOver(line: string): boolean {
    const complaint = readComplaint(line)
    if (!complaint) return false
    const nowMs = this.now()
    if (this.#sinceMs === undefined || nowMs - this.#lastMs > breakMs) this.#sinceMs = nowMs
    this.#lastMs = nowMs
    return complaint.final || nowMs - this.#sinceMs >= this.patienceMs
  }
}
