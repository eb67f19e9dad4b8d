/** Maximum number of events within a second before reading pauses. */
const mostEvents = 50
const windowMs = 1000

/**
 * Counts events of a virtual machine. A guest causes some of them by a mere write to a device (a panic report), as fast
 * as its processor can. The agent has other guests to serve.
 */
export class EventBudget {
  #sinceMs = 0
  #count = 0

  /** @returns false if there were too many within the second */
  take(nowMs = performance.now()): boolean {
    if (nowMs - this.#sinceMs >= windowMs) [this.#sinceMs, this.#count] = [nowMs, 0]
    return ++this.#count <= mostEvents
  }
}
