import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/*
 * A key consists of `berth_sk_`, 43 random base62 digits (256 bits) and 6 check digits. The check digits reject invalid
 * text without a query to the store, and let secret scanners recognize leaked keys.
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

/** SHA-256 of a key in hexadecimal. A fast digest is enough, because nobody can guess a key of 256 random bits. */
export function digestKey(key: string): string {
  return hash('sha256', key, 'hex')
}

/** The beginning of a key, as shown in lists. */
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

/** Generates random digits. Bytes beyond the last multiple of 62 are skipped, so that all digits are equally likely. */
function randomBase62(length: number): string {
  let text = ''
  while (text.length < length)
    for (const byte of randomBytes(length)) if (byte < 248 && text.length < length) text += alphabet[byte % 62] ?? ''
  return text
}
