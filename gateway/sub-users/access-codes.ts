import { hash, hkdfSync, randomBytes, randomInt } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'

/* An access code is 128 random bits in a link. It identifies an account. Access also needs the password. */

const codeBytes = 16
const form = /^[A-Za-z0-9_-]{22}$/

export interface AccessCode {
  readonly code: string
  /** SHA-256 of the code in hexadecimal, by which the account is found in the store. */
  readonly digest: string
  /** Encrypted code. It is stored because lists show the code. */
  readonly sealed: string
}

export function isAccessCode(text: string): boolean {
  return form.test(text)
}

export function digestCode(code: string): string {
  return hash('sha256', code, 'hex')
}

/** Creates access codes, and decrypts them for lists. */
export class AccessCodes {
  readonly #sealingKey: Buffer

  /** @param secret 32 secret bytes, the same in all gateways on one store */
  constructor(secret: Buffer) {
    this.#sealingKey = Buffer.from(hkdfSync('sha256', secret, '', 'access codes', 32))
  }

  create(): AccessCode {
    const code = randomBytes(codeBytes).toString('base64url')
    const digest = digestCode(code)
    return { code, digest, sealed: seal(this.#sealingKey, code, digest) }
  }

  /** Decrypts a code. @throws {BerthError} `internal_error` if it was encrypted with another secret */
  open({ digest, sealed }: Pick<AccessCode, 'digest' | 'sealed'>): string {
    return open(this.#sealingKey, sealed, digest)
  }
}

/** Characters of passwords, without those that look alike. */
const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789'
const lowerCase = 'abcdefghijkmnopqrstuvwxyz23456789'

/** Creates a password of 20 characters, which contain 116 random bits. */
export function makeSubUserPassword(): string {
  return randomText(alphabet, 20)
}

/** Creates a name for a sub-user if its creator did not choose one: `user-` and 10 characters. */
export function makeUsername(): string {
  return `user-${randomText(lowerCase, 10)}`
}

/** Creates a random suffix that makes a chosen name unique. */
export function makeNameEnd(): string {
  return randomText(lowerCase, 6)
}

function randomText(from: string, length: number): string {
  return Array.from({ length }, () => from[randomInt(from.length)]).join('')
}
