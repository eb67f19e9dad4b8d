const mostMs = 60_000

/** When to try a failed renewal again: later after each failure of a host, so that it does not fill the store. */
export class RenewalWaits {
  readonly #attempts = new Map<string, { readonly atMs: number; readonly failures: number }>()

  /** @param nowMs of a monotonic clock */
  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** @param firstMs after the first failure */
  isWaiting(hostId: string, firstMs: number): boolean {
    const last = this.#attempts.get(hostId)
    return last !== undefined && this.nowMs() - last.atMs < waitMs(last.failures, firstMs)
  }

  failed(hostId: string): void {
    const failures = (this.#attempts.get(hostId)?.failures ?? 0) + 1
    this.#attempts.set(hostId, { atMs: this.nowMs(), failures })
  }

  /** The next attempt still waits for a moment, until connections use the new certificate. */
  succeeded(hostId: string): void {
    this.#attempts.set(hostId, { atMs: this.nowMs(), failures: 0 })
  }
}

function waitMs(failures: number, firstMs: number): number {
  return Math.max(firstMs, Math.min(mostMs, firstMs * 2 ** (failures - 1)))
}
