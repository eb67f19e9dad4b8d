/** Maximum number of events within a second before reading pauses. */
const mostEvents = 50
const windowMs = 1000

/**
 * Limits the events that the agent reads from a virtual machine. A guest can cause any number of some events, such as
 * panic reports, by writes to a device. Such events must not delay other guests.
 */
export class EventBudget {
  #sinceMs = 0
  #count = 0

  /** Counts an event. @returns false if there were too many events within the present second */
  take(nowMs = performance.now()): boolean {
    if (nowMs - this.#sinceMs >= windowMs) [this.#sinceMs, this.#count] = [nowMs, 0]
    return ++this.#count <= mostEvents
  }
}
