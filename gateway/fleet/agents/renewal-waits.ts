const mostMs = 60_000

/** Delays between failed renewals. They double with each failure of a host, so that the store is not flooded. */
export class RenewalWaits {
  readonly #attempts = new Map<string, { readonly atMs: number; readonly failures: number }>()

  /** @param nowMs returns the time of a monotonic clock in ms */
  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** True if the host's next attempt must wait. @param firstMs delay in ms after the first failure */
  isWaiting(hostId: string, firstMs: number): boolean {
    const last = this.#attempts.get(hostId)
    return last !== undefined && this.nowMs() - last.atMs < waitMs(last.failures, firstMs)
  }

  /** True if the host's last attempt has failed and its next attempt must wait. */
  hasFailed(hostId: string, firstMs: number): boolean {
    return (this.#attempts.get(hostId)?.failures ?? 0) > 0 && this.isWaiting(hostId, firstMs)
  }

  failed(hostId: string): void {
    const failures = (this.#attempts.get(hostId)?.failures ?? 0) + 1
    this.#attempts.set(hostId, { atMs: this.nowMs(), failures })
  }

  /** Resets the host's delay to the shortest one. During this delay, connections change to the new certificate. */
  succeeded(hostId: string): void {
    this.#attempts.set(hostId, { atMs: this.nowMs(), failures: 0 })
  }
}

function waitMs(failures: number, firstMs: number): number {
  return Math.max(firstMs, Math.min(mostMs, firstMs * 2 ** (failures - 1)))
}
