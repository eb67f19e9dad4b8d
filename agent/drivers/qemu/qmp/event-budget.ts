/** Events within a second before nothing is read for a while. */
const mostEvents = 50
const windowMs = 1000

/**
 * Counts events of a machine. A guest causes some of them by a mere write to a device (that it panicked), as often as
 * its processor can: the agent has other guests to look after.
 */
export class EventBudget {
  #sinceMs = 0
  #count = 0

  /** @returns false when there were too many within the second */
  take(nowMs = performance.now()): boolean {
    if (nowMs - this.#sinceMs >= windowMs) [this.#sinceMs, this.#count] = [nowMs, 0]
    return ++this.#count <= mostEvents
  }
}
