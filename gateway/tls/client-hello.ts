/* Reads the ALPN protocols that a client offers from the first bytes of its connection (RFC 8446, 4.1.2; RFC 7301). */

const handshakeRecord = 22
const clientHello = 1
const alpnExtension = 16
const maxRecordBytes = 16_384

/**
 * Reads the ALPN protocols that the client offers.
 * @returns `more` if the record is not complete yet; an empty list if the bytes are not a ClientHello in one record and
 * the TLS library must handle them
 */
export function readProtocols(bytes: Buffer): readonly string[] | 'more' {
  if (bytes.length < 5) return bytes.length > 0 && bytes[0] !== handshakeRecord ? [] : 'more'
  const length = bytes.readUInt16BE(3)
  if (bytes[0] !== handshakeRecord || length > maxRecordBytes) return []
  if (bytes.length < 5 + length) return 'more'
  try {
    return parseHello(new Reader(bytes.subarray(5, 5 + length)))
  } catch (error) {
    if (error instanceof RangeError) return []
    throw error
  }
}

/** @throws {RangeError} if the message ends too early */
function parseHello(reader: Reader): string[] {
  if (reader.number(1) !== clientHello) return []
  const hello = reader.block(3)
  hello.skip(2 + 32)
  hello.block(1)
  hello.block(2)
  hello.block(1)
  const extensions = hello.block(2)
  while (extensions.left > 0) {
    const type = extensions.number(2)
    const content = extensions.block(2)
    if (type === alpnExtension) return readNames(content.block(2))
  }
  return []
}

function readNames(list: Reader): string[] {
  const names: string[] = []
  while (list.left > 0) names.push(list.block(1).text())
  return names
}

/** Reads numbers, and blocks that are preceded by their length. */
class Reader {
  #at = 0

  constructor(private readonly bytes: Buffer) {}

  get left(): number {
    return this.bytes.length - this.#at
  }

  number(size: number): number {
    if (this.left < size) throw new RangeError('the TLS message ends early')
    this.#at += size
    return this.bytes.readUIntBE(this.#at - size, size)
  }

  /** Reads a block. @param lengthBytes number of bytes that encode the length of the block */
  block(lengthBytes: number): Reader {
    const length = this.number(lengthBytes)
    this.skip(length)
    return new Reader(this.bytes.subarray(this.#at - length, this.#at))
  }

  skip(count: number): void {
    if (this.left < count) throw new RangeError('the TLS message ends early')
    this.#at += count
  }

  text(): string {
    return this.bytes.toString('latin1')
  }
}
