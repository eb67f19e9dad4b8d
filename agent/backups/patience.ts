import { readComplaint } from './plan-failure.js'

/** Complaints further apart are of two troubles. */
const breakMs = 60_000

/**
 * How long a target may fail: restic tries again for a quarter of an hour, whatever the trouble, and says so line by
 * line.
 */
export class Patience {
  #sinceMs: number | undefined
  #lastMs = 0

  constructor(
    private readonly patienceMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Something worked. */
  reset(): void {
    this.#sinceMs = undefined
  }

  /** @returns whether it is at an end with this line */
  isOver(line: string): boolean {
    const complaint = readComplaint(line)
    if (!complaint) return false
    const nowMs = this.now()
    if (this.#sinceMs === undefined || nowMs - this.#lastMs > breakMs) this.#sinceMs = nowMs
    this.#lastMs = nowMs
    return complaint.final || nowMs - this.#sinceMs >= this.patienceMs
  }
}
