const blockBytes = 8192

/** The newest output of a console, by its offset in all of it. Memory grows with what is in it, up to its bound. */
export class OutputRing {
  #blocks: Buffer[] = []
  /** Offset of the first block. */
  #base = 0
  #end = 0

  /** @param capacityBytes kept at least; up to a block more is in memory */
  constructor(private readonly capacityBytes: number) {}

  /** Offset of the oldest byte that is kept. */
  get start(): number {
    return Math.max(this.#base, this.#end - this.capacityBytes)
  }

  /** Offset after the newest byte. */
  get end(): number {
    return this.#end
  }

  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      const used = (this.#end - this.#base) % blockBytes
      if (used === 0) this.#blocks.push(Buffer.allocUnsafeSlow(blockBytes))
      const copied = bytes.copy(this.#blocks.at(-1)!, used, at)
      at += copied
      this.#end += copied
    }
    while (this.#end - this.#base - blockBytes >= this.capacityBytes) {
      this.#blocks.shift()
      this.#base += blockBytes
    }
  }

  /** What there is from an offset within the ring, up to `maxBytes`. The bytes stay as they are. */
  read(offset: number, maxBytes: number): Buffer {
    const parts: Buffer[] = []
    for (let left = Math.min(maxBytes, this.#end - offset), at = offset; left > 0;) {
      const part = this.#readBlock(at, left)
      parts.push(part)
      left -= part.length
      at += part.length
    }
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
  }

  /** The offset after the first end of a line among the next `within` bytes; without one `offset` itself. */
  findLine(offset: number, within: number): number {
    return offset + this.read(offset, within).indexOf(0x0a) + 1
  }

  #readBlock(offset: number, maxBytes: number): Buffer {
    const at = offset - this.#base
    const from = at % blockBytes
    return this.#blocks[Math.floor(at / blockBytes)]!.subarray(from, Math.min(blockBytes, from + maxBytes))
  }
}
