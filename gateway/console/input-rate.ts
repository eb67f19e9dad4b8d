/** Bytes per second that a client may send, and the size of a burst after a pause. */
const bytesPerSecond = 64 * 1024
const burstBytes = 1024 * 1024

/** Limits the input of a client with a token bucket. */
export class InputRate {
  #tokens = burstBytes
  #filledAtMs: number

  constructor(nowMs: number) {
    this.#filledAtMs = nowMs
  }

  /** Counts input. @returns time in ms for which reading must pause; 0: no pause */
  take(bytes: number, nowMs: number): number {
    const gained = ((nowMs - this.#filledAtMs) / 1000) * bytesPerSecond
    this.#filledAtMs = nowMs
    this.#tokens = Math.min(burstBytes, this.#tokens + gained) - bytes
    return this.#tokens >= 0 ? 0 : Math.ceil((-this.#tokens / bytesPerSecond) * 1000)
  }
}
