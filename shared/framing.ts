/*
 * Frames on a byte stream. A frame consists of a header of four bytes and the content. The first byte of the header is
 * the kind: 1 for plain bytes, 0 for an encoded message. The other bytes are the length, big-endian.
 */

const headBytes = 4
/** Maximum size of the content in bytes. The largest valid content, a message with 64 KiB of input, is smaller. */
const maxFrameBytes = 96 * 1024

export function frameOf(content: Uint8Array, isBytes = false): Buffer {
  const frame = Buffer.allocUnsafe(headBytes + content.length)
  frame.writeUInt32BE(content.length, 0)
  frame[0] = isBytes ? 1 : 0
  frame.set(content, headBytes)
  return frame
}

export type OnFrame = (content: Buffer, isBytes: boolean) => void

/** Splits received chunks into frames. */
export class FrameReader {
  #parts: Buffer[] = []
  #bytes = 0
  /** Number of bytes that are needed before the next frame can be parsed. */
  #wanted = headBytes

  /** @throws {RangeError} for a frame that is too long or of an unknown kind */
  push(chunk: Buffer, onFrame: OnFrame): void {
    this.#parts.push(chunk)
    this.#bytes += chunk.length
    while (this.#bytes >= this.#wanted) {
      const all = this.#join()
      const end = headBytes + lengthOf(all)
      if (all.length < end) this.#wanted = end
      else {
        this.#keep(all.subarray(end))
        onFrame(all.subarray(headBytes, end), all[0] === 1)
      }
    }
  }

  #join(): Buffer {
    const all = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    this.#parts = [all]
    return all
  }

  #keep(rest: Buffer): void {
    this.#parts = rest.length > 0 ? [rest] : []
    this.#bytes = rest.length
    this.#wanted = headBytes
  }
}

function lengthOf(frame: Buffer): number {
  const length = frame.readUIntBE(1, 3)
  if (frame[0]! > 1) throw new RangeError(`unknown kind of frame: ${frame[0]}`)
  if (length > maxFrameBytes)
    throw new RangeError(`the frame has ${length} bytes, but must have at most ${maxFrameBytes}`)
  return length
}
