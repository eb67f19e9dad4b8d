/** Failed authentications that are answered as such, per address. */
export const failuresPerMinute = 30

interface Window {
  endsAtMs: number
  left: number
}

/** Addresses remembered at once; beyond it the oldest are forgotten. */
const maxAddresses = 10_000

/** So many failed attempts per address and minute. */
export class AttemptLimit {
  readonly #windows = new Map<string, Window>()

  constructor(private readonly perMinute: number) {}

  /** @returns whether another attempt is allowed, and counts it */
  take(address: string, nowMs = Date.now()): boolean {
    const window = this.#windows.get(address)
    if (!window || window.endsAtMs <= nowMs) {
      this.#windows.delete(address)
      this.#windows.set(address, { endsAtMs: nowMs + 60_000, left: this.perMinute - 1 })
      this.#forget()
      return true
    }
    window.left -= 1
    return window.left >= 0
  }

  /** An attempt that succeeded does not count. */
  giveBack(address: string): void {
    const window = this.#windows.get(address)
    if (window) window.left += 1
  }

  #forget(): void {
    if (this.#windows.size <= maxAddresses) return
    const [oldest] = this.#windows.keys()
    if (oldest !== undefined) this.#windows.delete(oldest)
  }
}
