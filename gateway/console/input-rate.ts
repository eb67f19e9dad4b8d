/** Bytes a second that a client may type, and at once after a pause. */
const bytesPerSecond = 64 * 1024
const burstBytes = 1024 * 1024

/** Bounds what a client sends: a bucket that fills again as time passes. */
export class InputRate {
  #tokens = burstBytes
  #filledAtMs: number

  constructor(nowMs: number) {
    this.#filledAtMs = nowMs
  }

  /** Counts input. @returns ms for which no more is to be read; 0: it may go on */
  take(bytes: number, nowMs: number): number {
    const gained = ((nowMs - this.#filledAtMs) / 1000) * bytesPerSecond
    this.#filledAtMs = nowMs
    this.#tokens = Math.min(burstBytes, this.#tokens + gained) - bytes
    return this.#tokens >= 0 ? 0 : Math.ceil((-this.#tokens / bytesPerSecond) * 1000)
  }
}
