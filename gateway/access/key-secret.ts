import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/*
 * A key is `berth_sk_`, 43 random base62 digits (256 bits) and 6 check digits, which reject garbage without a query to
 * the store and let scanners recognize leaked keys.
 */

const prefix = 'berth_sk_'
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomDigits = 43
const checkDigits = 6
const shownDigits = 6
const form = new RegExp(`^${prefix}[0-9A-Za-z]{${randomDigits + checkDigits}}$`)

export function createKeySecret(): string {
  const body = prefix + randomBase62(randomDigits)
  return body + checkOf(body)
}

export function isKeySecret(text: string): boolean {
  return form.test(text) && checkOf(text.slice(0, -checkDigits)) === text.slice(-checkDigits)
}

/** SHA-256, hex. A fast digest is fine, since 256 random bits cannot be guessed. */
export function digestKey(key: string): string {
  return hash('sha256', key, 'hex')
}

/** The part of a key that lists show. */
export function shownPrefix(key: string): string {
  return `${key.slice(0, prefix.length + shownDigits)}...`
}

function checkOf(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let i = 0; i < checkDigits; i++) {
    digits = (alphabet[rest % 62] ?? '') + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Skips bytes past the last multiple of 62, so that every digit is equally likely. */
function randomBase62(length: number): string {
  let text = ''
  while (text.length < length)
    for (const byte of randomBytes(length)) if (byte < 248 && text.length < length) text += alphabet[byte % 62] ?? ''
  return text
}
