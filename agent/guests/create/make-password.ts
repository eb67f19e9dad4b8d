import { randomInt } from 'node:crypto'

/** Creates a password of 16 characters (92 bits) without similar characters, with at least one letter and one digit. */
export function makePassword(): string {
  const letters = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ'
  const digits = '23456789'
  const pick = (from: string): string => from.charAt(randomInt(from.length))
  const password = Array.from({ length: 16 }, () => pick(letters + digits)).join('')
  return /[a-z]/i.test(password) && /\d/.test(password) ? password : makePassword()
}
