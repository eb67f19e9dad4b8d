import { hash, randomInt } from 'node:crypto'

/* Codes that a person types in a browser to confirm a login of the command line (RFC 8628, section 6.1). */

/** Consonants that are hard to confuse, and that form no words. */
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const length = 8

/** Returns a random code of 34 bits, such as `BDFH-KMPR`. */
export function createUserCode(): string {
  const code = Array.from({ length }, () => letters[randomInt(letters.length)]).join('')
  return `${code.slice(0, length / 2)}-${code.slice(length / 2)}`
}

/** SHA-256 of a code in hexadecimal, regardless of case, spaces and hyphens. `undefined`: the text is not a code. */
export function digestUserCode(text: string): string | undefined {
  const code = text.toUpperCase().replaceAll(/[\s-]/g, '')
  const isCode = code.length === length && [...code].every((letter) => letters.includes(letter))
  return isCode ? hash('sha256', code, 'hex') : undefined
}
