import { createHmac, hash, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

/* The cookie of a session contains a token of 256 random bits. The store contains only its digest. */

const form = /^[A-Za-z0-9_-]{43}$/

export function createToken(): string {
  return randomBytes(32).toString('base64url')
}

export function isToken(text: string): boolean {
  return form.test(text)
}

/** SHA-256 of a token in hexadecimal. A fast digest is enough, because nobody can guess a token of 256 random bits. */
export function digestToken(token: string): string {
  return hash('sha256', token, 'hex')
}

/** CSRF tokens. Pages must send the token with each change, and pages of other sites do not know it. */
export class CsrfValues {
  readonly #key: Buffer

  /** @param secret 32 secret bytes, the same in all gateways on one store */
  constructor(secret: Buffer) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'csrf values', 32))
  }

  /** Computes the CSRF token of a session. It is not stored. */
  of(sessionDigest: string): string {
    return createHmac('sha256', this.#key).update(sessionDigest).digest('base64url')
  }

  matches(sessionDigest: string, sent: string): boolean {
    const [want, have] = [this.of(sessionDigest), sent].map((text) => Buffer.from(text))
    return want?.length === have?.length && timingSafeEqual(want as Buffer, have as Buffer)
  }
}
