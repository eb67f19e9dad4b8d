import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'

/** Key of an account at a certificate authority: ECDSA P-256, which all ACME servers accept (RFC 8555, 6.2). */
export class AccountKey {
  /** Public key. Its members have the order in which RFC 7638 hashes them. */
  readonly jwk: Readonly<Record<'crv' | 'kty' | 'x' | 'y', string>>
  /** Thumbprint of the key (RFC 7638), the second half of answers to challenges. */
  readonly thumbprint: string

  private constructor(readonly key: KeyObject) {
    const { x = '', y = '' } = createPublicKey(key).export({ format: 'jwk' })
    this.jwk = { crv: 'P-256', kty: 'EC', x, y }
    this.thumbprint = createHash('sha256').update(JSON.stringify(this.jwk)).digest('base64url')
  }

  static create(): AccountKey {
    return new AccountKey(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)
  }

  static fromPem(pem: string): AccountKey {
    return new AccountKey(createPrivateKey(pem))
  }

  /** Private key as PKCS #8 in PEM. */
  toPem(): string {
    return this.key.export({ type: 'pkcs8', format: 'pem' }).toString()
  }

  /**
   * Signs a request as a flattened JWS (RFC 7515, 7.2.2).
   * @param payload content; undefined: a POST-as-GET request, which only reads (RFC 8555, 6.3)
   */
  sign(header: object, payload: object | undefined): string {
    const protectedPart = encode({ alg: 'ES256', ...header })
    const payloadPart = payload === undefined ? '' : encode(payload)
    const text = Buffer.from(`${protectedPart}.${payloadPart}`)
    const signature = sign('sha256', text, { key: this.key, dsaEncoding: 'ieee-p1363' })
    return JSON.stringify({
      protected: protectedPart,
      payload: payloadPart,
      signature: signature.toString('base64url'),
    })
  }
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
