/* Fields of ECMA-119 (ISO 9660). Its numbers are often in both byte orders, the little-endian one first. */

export const sectorBytes = 2048

/** Whole sectors that so many bytes take. */
export function sectorsOf(bytes: number): number {
  return Math.ceil(bytes / sectorBytes)
}

/** 7.3.3 */
export function both32(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt32LE(value, 0)
  bytes.writeUInt32BE(value, 4)
  return bytes
}

/** 7.2.3 */
export function both16(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt16LE(value, 0)
  bytes.writeUInt16BE(value, 2)
  return bytes
}

/** UCS-2, as Joliet has it: the more significant byte first. */
export function wide(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16()
}

/** @throws {RangeError} when it is longer */
export function padded(content: Buffer, bytes: number, filling: Buffer = Buffer.alloc(1)): Buffer {
  if (content.length > bytes) throw new RangeError(`${content.length} bytes where ${bytes} are`)
  return Buffer.concat([content, Buffer.alloc(bytes - content.length, filling)])
}
