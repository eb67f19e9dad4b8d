import { sizeText } from '../output/sizes.js'
import type { Surroundings } from '../surroundings.js'

const showEveryMs = 200
const clearLine = '\r\u001b[K'

/** Shows on a terminal how much was copied. */
export class CopyProgress {
  #bytes = 0
  #shownAtMs = -Infinity

  constructor(private readonly surroundings: Surroundings) {}

  add(bytes: number): void {
    this.#bytes += bytes
    const nowMs = this.surroundings.nowMs()
    if (nowMs - this.#shownAtMs < showEveryMs) return
    this.#shownAtMs = nowMs
    this.#write(`${clearLine}${sizeText(this.#bytes)} copied`)
  }

  /** Removes the line with the progress, so that another text can be written. */
  clear(): void {
    this.#write(clearLine)
  }

  end(): void {
    this.#write(`${clearLine}${sizeText(this.#bytes)} copied\n`)
  }

  #write(text: string): void {
    if (this.surroundings.hasProgress) this.surroundings.writeError(text)
  }
}
