import { readComplaint } from './plan-failure.js'

/** Time in ms. If two failures are further apart, they count as unrelated. */
const breakMs = 60_000

/**
 * Limits the time for which failures of a target are tolerated. restic would retry for 15 minutes after a failure.
 * restic reports each failure in a line of its output.
 */
export class Patience {
  #sinceMs: number | undefined
  #lastMs = 0

  constructor(
    private readonly patienceMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Forgets earlier failures. Call this after each success. */
  reset(): void {
    this.#sinceMs = undefined
  }

  /** Reads a line of restic's output. @returns true if the run should be ended */
  isOver(line: string): boolean {
    const complaint = readComplaint(line)
    if (!complaint) return false
    const nowMs = this.now()
    if (this.#sinceMs === undefined || nowMs - this.#lastMs > breakMs) this.#sinceMs = nowMs
    this.#lastMs = nowMs
    return complaint.final || nowMs - this.#sinceMs >= this.patienceMs
  }
}
