import { createHmac, hash, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

/* A session's token is 256 random bits, in a cookie; the store has only its digest. */

const form = /^[A-Za-z0-9_-]{43}$/

export function createToken(): string {
  return randomBytes(32).toString('base64url')
}

export function isToken(text: string): boolean {
  return form.test(text)
}

/** SHA-256, hex. A fast digest is fine, since 256 random bits cannot be guessed. */
export function digestToken(token: string): string {
  return hash('sha256', token, 'hex')
}

/** CSRF tokens, which a page must send with each change, so that other sites' pages cannot (see `checkSameSite`). */
export class CsrfValues {
  readonly #key: Buffer

  /** @param secret 32 bytes, the same in all gateways on one store */
  constructor(secret: Buffer) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'csrf values', 32))
  }

  /** The session's token, which is computed and not stored. */
  of(sessionDigest: string): string {
    return createHmac('sha256', this.#key).update(sessionDigest).digest('base64url')
  }

  matches(sessionDigest: string, sent: string): boolean {
    const [want, have] = [this.of(sessionDigest), sent].map((text) => Buffer.from(text))
    return want?.length === have?.length && timingSafeEqual(want as Buffer, have as Buffer)
  }
}
