const blockBytes = 8192

/** Retains the newest output of a console. Offsets count bytes from the first output of the console. */
export class OutputRing {
  #blocks: Buffer[] = []
  /** Offset of the first byte of the first block. */
  #base = 0
  #end = 0

  /** @param capacityBytes number of bytes that are retained; up to one block of older bytes is kept in addition */
  constructor(private readonly capacityBytes: number) {}

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

  /** Returns up to `maxBytes` from an offset in the ring. The bytes stay in the ring. */
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

  /** Returns the offset after the first line end in the next `within` bytes. Without a line end, returns `offset`. */
  findLine(offset: number, within: number): number {
    return offset + this.read(offset, within).indexOf(0x0a) + 1
  }

  #readBlock(offset: number, maxBytes: number): Buffer {
    const at = offset - this.#base
    const from = at % blockBytes
    return this.#blocks[Math.floor(at / blockBytes)]!.subarray(from, Math.min(blockBytes, from + maxBytes))
  }
}
