import { randomInt } from 'node:crypto'

/** Creates a password of 16 characters without look-alikes, about 92 bits, always with a letter and a digit. */
export function makePassword(): string {
  const letters = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ'
  const digits = '23456789'
  const pick = (from: string): string => from.charAt(randomInt(from.length))
  const password = Array.from({ length: 16 }, () => pick(letters + digits)).join('')
  return /[a-z]/i.test(password) && /\d/.test(password) ? password : makePassword()
}
