/* This module encodes fields of ECMA-119 (ISO 9660). Many numbers are in both byte orders, little-endian first. */

export const sectorBytes = 2048

export function sectorsOf(bytes: number): number {
  return Math.ceil(bytes / sectorBytes)
}

/** Encodes a 32-bit number in both byte orders (ECMA-119, 7.3.3). */
export function both32(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt32LE(value, 0)
  bytes.writeUInt32BE(value, 4)
  return bytes
}

/** Encodes a 16-bit number in both byte orders (ECMA-119, 7.2.3). */
export function both16(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt16LE(value, 0)
  bytes.writeUInt16BE(value, 2)
  return bytes
}

/** Encodes text in UCS-2 for Joliet, the more significant byte first. */
export function wide(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16()
}

/** Pads the content to `bytes` bytes. @throws {RangeError} if the content is longer */
export function padded(content: Buffer, bytes: number, filling: Buffer = Buffer.alloc(1)): Buffer {
  if (content.length > bytes)
    throw new RangeError(`the content has ${content.length} bytes, but the field only has ${bytes}`)
  return Buffer.concat([content, Buffer.alloc(bytes - content.length, filling)])
}
