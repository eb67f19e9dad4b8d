import { createHash, createSign, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'

/** The parts of a browser's options that the authenticator needs. */
interface Options {
  readonly challenge: string
  readonly rp?: { readonly id?: string }
  readonly rpId?: string
  readonly user?: { readonly id: string }
}

interface Changes {
  /** Origin of the page. Default: the origin of the authenticator. */
  readonly origin?: string
  readonly challenge?: string
  /** False: the authenticator has not verified the user. */
  readonly verified?: boolean
  /** Value of the counter. Default: the next value. */
  readonly counter?: number
  /** Certificate (DER) of an attestation in Apple's format. Default: no attestation. */
  readonly certificate?: Buffer
}

const present = 0x01
const verified = 0x04
const withKey = 0x40

/** An authenticator with one passkey, like a security key with an ES256 key. The authenticator sends no attestation. */
export class SoftwareAuthenticator {
  readonly id = randomBytes(32)
  readonly #keys: { publicKey: KeyObject; privateKey: KeyObject } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  #user = ''
  #counter = 0

  constructor(private readonly origin: string) {}

  /** Result of `navigator.credentials.create()`. */
  create({ challenge, user, rp }: Options, changes: Changes = {}) {
    this.#user = user?.id ?? ''
    const flags = this.#flags(changes) | withKey
    const header = Buffer.alloc(18)
    header.writeUInt16BE(this.id.length, 16)
    const data = Buffer.concat([this.#data(rp?.id ?? '', flags, 0), header, this.id, this.#coseKey()])
    const attestationObject = Buffer.concat([
      ...[Buffer.from([0xa3]), ...attestation(changes), text('authData'), bytes(data)],
    ])
    const clientDataJSON = this.#clientData('webauthn.create', challenge, changes)
    return this.#credential({ clientDataJSON, attestationObject: encode(attestationObject), transports: ['usb'] })
  }

  /** Result of `navigator.credentials.get()`. */
  sign({ challenge, rpId = '' }: Options, changes: Changes = {}) {
    const { counter = ++this.#counter } = changes
    const data = this.#data(rpId, this.#flags(changes), counter)
    const clientDataJSON = this.#clientData('webauthn.get', challenge, changes)
    const hash = createHash('sha256').update(Buffer.from(clientDataJSON, 'base64url')).digest()
    const signature = createSign('sha256')
      .update(Buffer.concat([data, hash]))
      .sign(this.#keys.privateKey)
    return this.#credential({
      clientDataJSON,
      authenticatorData: encode(data),
      signature: encode(signature),
      userHandle: this.#user,
    })
  }

  #credential<Response extends object>(response: Response) {
    return { id: encode(this.id), rawId: encode(this.id), type: 'public-key', response, clientExtensionResults: {} }
  }

  #flags({ verified: isVerified = true }: Changes): number {
    return present | (isVerified ? verified : 0)
  }

  #clientData(type: string, challenge: string, { origin = this.origin, ...changes }: Changes): string {
    const data = { type, challenge: changes.challenge ?? challenge, origin, crossOrigin: false }
    return encode(Buffer.from(JSON.stringify(data)))
  }

  #data(partyId: string, flags: number, counter: number): Buffer {
    const end = Buffer.alloc(5)
    end.writeUInt8(flags)
    end.writeUInt32BE(counter, 1)
    return Buffer.concat([createHash('sha256').update(partyId).digest(), end])
  }

  /** The public key in CBOR: a map of the type EC2, the algorithm ES256, the curve P-256, x and y. */
  #coseKey(): Buffer {
    const { x = '', y = '' } = this.#keys.publicKey.export({ format: 'jwk' })
    const [left, right] = [Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]
    const start = Buffer.from([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21])
    return Buffer.concat([start, bytes(left), Buffer.from([0x22]), bytes(right)])
  }
}

function encode(data: Buffer): string {
  return data.toString('base64url')
}

/** A text of less than 24 characters in CBOR. */
function text(value: string): Buffer {
  return Buffer.concat([Buffer.from([0x60 + value.length]), Buffer.from(value)])
}

/** 24 to 65,535 bytes in CBOR, with the shortest form of the length. */
function bytes(value: Buffer): Buffer {
  const { length } = value
  const head = length < 256 ? [0x58, length] : [0x59, length >> 8, length & 255]
  return Buffer.concat([Buffer.from(head), value])
}

function attestation({ certificate }: Changes): Buffer[] {
  if (!certificate) return [text('fmt'), text('none'), text('attStmt'), Buffer.from([0xa0])]
  const list = [Buffer.from([0xa1]), text('x5c'), Buffer.from([0x81]), bytes(certificate)]
  return [text('fmt'), text('apple'), text('attStmt'), ...list]
}
