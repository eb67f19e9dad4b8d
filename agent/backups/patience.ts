import { readComplaint } from './plan-failure.js'

/** Complaints that are further apart have different causes. */
const breakMs = 60_000

/**
 * Limits how long a target may fail. restic itself retries for a quarter of an hour whatever the cause, and reports
 * each failure in a line.
 */
export class Patience {
  #sinceMs: number | undefined
  #lastMs = 0

  constructor(
    private readonly patienceMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Call it when an operation succeeded. */
  reset(): void {
    this.#sinceMs = undefined
  }

  /** @returns whether this line exhausts the patience */
  isOver(line: string): boolean {
    const complaint = readComplaint(line)
    if (!complaint) return false
    const nowMs = this.now()
    if (this.#sinceMs === undefined || nowMs - this.#lastMs > breakMs) this.#sinceMs = nowMs
    this.#lastMs = nowMs
    return complaint.final || nowMs - this.#sinceMs >= this.patienceMs
  }
}
