import { randomBytes } from 'node:crypto'

/** Rounds a time down to seconds, as certificates require. */
export function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}

/** Creates a serial number of 128 bits, 126 of them random, without leading zero octets (RFC 5280, 4.1.2.2). */
export function newSerial(): string {
  const bytes = randomBytes(16)
  bytes[0] = (bytes[0]! & 0x3f) | 0x40
  return bytes.toString('hex')
}

/** Converts DER to PEM in lines of 64 characters (RFC 7468). */
export function toPem(label: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
