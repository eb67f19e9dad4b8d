import { hash, hkdfSync, randomBytes, randomInt } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'

/* An access code is 128 random bits in a link. It names an account, and gives no access without the password. */

const codeBytes = 16
const form = /^[A-Za-z0-9_-]{22}$/

export interface AccessCode {
  readonly code: string
  /** SHA-256, hex, by which the store finds the account. */
  readonly digest: string
  /** The code, encrypted, since lists show it again. */
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

  /** @param secret 32 bytes, the same in every gateway on one store */
  constructor(secret: Buffer) {
    this.#sealingKey = Buffer.from(hkdfSync('sha256', secret, '', 'access codes', 32))
  }

  create(): AccessCode {
    const code = randomBytes(codeBytes).toString('base64url')
    const digest = digestCode(code)
    return { code, digest, sealed: seal(this.#sealingKey, code, digest) }
  }

  /** @throws {BerthError} `internal_error` for another secret */
  open({ digest, sealed }: Pick<AccessCode, 'digest' | 'sealed'>): string {
    return open(this.#sealingKey, sealed, digest)
  }
}

/** Omits letters and digits that look alike. */
const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789'
const lowerCase = 'abcdefghijkmnopqrstuvwxyz23456789'

/** 20 characters: 116 bits. */
export function makeSubUserPassword(): string {
  return randomText(alphabet, 20)
}

/** A name for a sub-user without a chosen one: `user-` and 10 characters. */
export function makeUsername(): string {
  return `user-${randomText(lowerCase, 10)}`
}

/** A random end that makes a chosen name unique. */
export function makeNameEnd(): string {
  return randomText(lowerCase, 6)
}

function randomText(from: string, length: number): string {
  return Array.from({ length }, () => from[randomInt(from.length)]).join('')
}
