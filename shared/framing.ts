/*
 * Messages on a stream: 32 bits of length, big-endian, then the bytes.
 */

/** Above the largest message: 64 KiB of input, with what goes around it. */
const maxFrameBytes = 96 * 1024

export function frameOf(bytes: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(4 + bytes.length)
  frame.writeUInt32BE(bytes.length, 0)
  frame.set(bytes, 4)
  return frame
}

/** Cuts what arrives into messages. */
export class FrameReader {
  #parts: Buffer[] = []
  #bytes = 0

  /** @throws {RangeError} for a message that is too long */
  push(chunk: Buffer): Buffer[] {
    this.#parts.push(chunk)
    this.#bytes += chunk.length
    const frames: Buffer[] = []
    for (let frame = this.#take(); frame !== undefined; frame = this.#take()) frames.push(frame)
    return frames
  }

  #take(): Buffer | undefined {
    const length = this.#length()
    if (length === undefined || this.#bytes < 4 + length) return undefined
    const all = this.#joined()
    this.#parts = [all.subarray(4 + length)]
    this.#bytes -= 4 + length
    return all.subarray(4, 4 + length)
  }

  #length(): number | undefined {
    if (this.#bytes < 4) return undefined
    const first = this.#parts[0]!
    const length = (first.length >= 4 ? first : this.#joined()).readUInt32BE(0)
    if (length > maxFrameBytes) throw new RangeError(`a message of ${length} bytes`)
    return length
  }

  #joined(): Buffer {
    const all = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    this.#parts = [all]
    return all
  }
}
