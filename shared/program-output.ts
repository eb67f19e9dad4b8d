/*
 * The output of a program without a terminal consists of records. They keep the program's two outputs apart. A record
 * has a head of four bytes and the content. The first byte of the head is the number of the output: 1 for the standard
 * output, 2 for the standard error. The other bytes are the length of the content, big-endian.
 */

export const headBytes = 4

export type OutputNumber = 1 | 2

/** @param content at most 16 MiB */
export function outputRecord(output: OutputNumber, content: Buffer): Buffer {
  return writeHead(Buffer.concat([Buffer.alloc(headBytes), content]), output)
}

/** Writes the head of a record in front of its content. @param record the head and the content */
export function writeHead(record: Buffer, output: OutputNumber): Buffer {
  record.writeUInt32BE(record.length - headBytes, 0)
  record[0] = output
  return record
}

/** A part of one of the outputs. */
export interface OutputPart {
  readonly output: OutputNumber
  readonly bytes: Buffer
}

/** Separates the outputs in received chunks. Records can be divided between chunks at any place. */
export class ProgramOutputReader {
  readonly #head: number[] = []
  #output: OutputNumber = 1
  /** Number of bytes of the present record that have not arrived yet. */
  #left = 0

  /** @throws {RangeError} for a record of an unknown output */
  read(chunk: Buffer): OutputPart[] {
    const parts: OutputPart[] = []
    for (let at = 0; at < chunk.length;) {
      if (this.#left === 0) this.#addToHead(chunk[at++]!)
      else {
        const bytes = chunk.subarray(at, at + this.#left)
        parts.push({ output: this.#output, bytes })
        this.#left -= bytes.length
        at += bytes.length
      }
    }
    return parts
  }

  #addToHead(byte: number): void {
    this.#head.push(byte)
    if (this.#head.length < headBytes) return
    const [output = 0, ...length] = this.#head.splice(0)
    if (output !== 1 && output !== 2)
      throw new RangeError(`the data of a program has an unknown output number: ${output}`)
    this.#output = output
    this.#left = Buffer.from(length).readUIntBE(0, headBytes - 1)
  }
}
