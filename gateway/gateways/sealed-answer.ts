import { createPublicKey, diffieHellman, generateKeyPairSync, hkdfSync, type KeyObject } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import { open, seal } from '../../shared/sealing.js'

/*
 * Encrypts the answer to a joining gateway with the X25519 key of its server. This key and an ephemeral key give a
 * shared secret (RFC 7748). HKDF (RFC 5869) derives the AES-256-GCM key from it.
 */

const context = 'berth-gateway-join'

export interface SealedAnswer {
  /** Ephemeral X25519 key of this answer: SubjectPublicKeyInfo (DER) in base64url. */
  readonly public_key: string
  readonly sealed: string
}

/** @param publicKey key of the receiver @throws {BerthError} `invalid_field` if it is not an X25519 key */
export function sealAnswer(publicKey: string, text: string): SealedAnswer {
  const receiver = readPublicKey(publicKey)
  const own = generateKeyPairSync('x25519')
  const ownPublic = encodePublicKey(own.publicKey)
  const key = sharedKey(own.privateKey, receiver, ownPublic + publicKey)
  return { public_key: ownPublic, sealed: seal(key, text, context) }
}

/** @throws {BerthError} `internal_error` if the answer was encrypted for another key, or was modified */
export function openAnswer(privateKey: KeyObject, { public_key, sealed }: SealedAnswer): string {
  const names = public_key + encodePublicKey(createPublicKey(privateKey))
  return open(sharedKey(privateKey, readPublicKey(public_key), names), sealed, context)
}

export function encodePublicKey(key: KeyObject): string {
  return key.export({ type: 'spki', format: 'der' }).toString('base64url')
}

function sharedKey(privateKey: KeyObject, publicKey: KeyObject, salt: string): Buffer {
  const secret = diffieHellman({ privateKey, publicKey })
  return Buffer.from(hkdfSync('sha256', secret, salt, context, 32))
}

function readPublicKey(text: string): KeyObject {
  try {
    const key = createPublicKey({ key: Buffer.from(text, 'base64url'), type: 'spki', format: 'der' })
    if (key.asymmetricKeyType !== 'x25519') throw new TypeError('the key is not an X25519 key')
    return key
  } catch (cause) {
    throw new BerthError('invalid', 'invalid_field', 'public_key: must be an X25519 key', {
      field: 'public_key',
      cause,
    })
  }
}
