interface Waiter {
  readonly revision: number
  done(): void
}

/** Callers that wait until a host's part of the view reaches a revision. */
export class Waiters {
  readonly #byHost = new Map<string, Set<Waiter>>()

  /** Resolves at the revision or after `timeoutMs`, whichever comes first. */
  wait(hostId: string, revision: number, timeoutMs: number): Promise<void> {
    const waiters = this.#byHost.get(hostId) ?? new Set()
    this.#byHost.set(hostId, waiters)
    return new Promise((resolve) => {
      const waiter = {
        revision,
        done: () => {
          clearTimeout(timer)
          waiters.delete(waiter)
          resolve()
        },
      }
      const timer = setTimeout(() => waiter.done(), timeoutMs)
      waiters.add(waiter)
    })
  }

  advance(hostId: string, revision: number): void {
    for (const waiter of this.#byHost.get(hostId) ?? []) if (waiter.revision <= revision) waiter.done()
  }

  releaseAll(): void {
    for (const waiters of this.#byHost.values()) for (const waiter of waiters) waiter.done()
  }
}
