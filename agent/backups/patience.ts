import { readComplaint } from './plan-failure.js'

/** Maximum pause in ms between two failures of the same outage. Failures before a longer pause no longer count. */
const breakMs = 60_000

/**
 * Decides from restic's output when failures of a target have lasted too long. The output has a line for each failure.
 * restic itself would retry for 15 minutes.
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
