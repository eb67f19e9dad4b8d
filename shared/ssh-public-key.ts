import { createPublicKey, hash } from 'node:crypto'
import { BerthError, invalidField } from './errors.js'

interface KeyRule {
  readonly type: string
  readonly minRsaBits: number
}

/**
 * Key types that the sshd of current distributions accepts in `authorized_keys`, each with its check. Two are missing
 * on purpose: `ssh-dss`, which OpenSSH refuses from version 7.0 on, and certificates, which sshd checks with a CA key.
 */
const bodyChecks: Readonly<Record<string, (fields: Fields, rule: KeyRule) => void>> = {
  'ssh-ed25519': checkEd25519,
  'ssh-rsa': checkRsa,
  'ecdsa-sha2-nistp256': checkEcdsa,
  'ecdsa-sha2-nistp384': checkEcdsa,
  'ecdsa-sha2-nistp521': checkEcdsa,
  'sk-ssh-ed25519@openssh.com': (fields) => {
    checkEd25519(fields)
    checkApplication(fields)
  },
  'sk-ecdsa-sha2-nistp256@openssh.com': (fields, rule) => {
    checkEcdsa(fields, rule)
    checkApplication(fields)
  },
}

/** Minimum bits of an RSA key for logins. Distributions with the crypto policy of RHEL 9 refuse shorter keys. */
const minLoginRsaBits = 2048
/** OpenSSL cannot use longer keys. */
const maxRsaBits = 16_384
const maxLineLength = 16_384

/**
 * Parses and completely checks an OpenSSH public key of one line without options, because sshd ignores invalid lines
 * silently. Source: RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4, openssh-portable PROTOCOL.u2f
 * @returns the key, trimmed and with single spaces
 * @throws {BerthError} `invalid_field`
 */
export function parseSshPublicKey(line: string, field = 'ssh_public_key', minRsaBits = minLoginRsaBits): string {
  try {
    return parseLine(line.trim(), minRsaBits)
  } catch (error) {
    if (!(error instanceof KeyFault)) throw error
    throw refusal(field, error.message)
  }
}

/** Returns the fingerprint of a valid key in the form of `ssh-keygen -l`: `SHA256:` and base64 without padding. */
export function sshKeyFingerprint(key: string): string {
  const blob = Buffer.from(key.split(' ')[1] ?? '', 'base64')
  return `SHA256:${hash('sha256', blob, 'base64').replace(/=+$/, '')}`
}

/** The reason why a key is refused. The caller adds the name of the field. */
class KeyFault extends Error {}

function refusal(field: string, why: string): BerthError {
  return invalidField(field, `${field}: ${why}`)
}

function parseLine(line: string, minRsaBits: number): string {
  refuseOtherFormats(line)
  if (/[^\P{Cc}\t]|[\u2028\u2029]/u.test(line)) throw new KeyFault('must be one line without control characters')
  if (line.length > maxLineLength) throw new KeyFault(`must be at most ${maxLineLength} characters`)
  const [type = '', blob = '', ...comment] = line.split(/[ \t]+/)
  const checkBody = Object.hasOwn(bodyChecks, type) ? bodyChecks[type] : undefined
  if (!checkBody) throw new KeyFault(typeFault(type))
  const fields = new Fields(decodeBase64(blob))
  if (fields.text() !== type) throw new KeyFault(`is damaged: its data is not of type ${type}`)
  checkBody(fields, { type, minRsaBits })
  if (!fields.atEnd) throw new KeyFault('is damaged: there is extra data after the key')
  return [type, blob, ...comment].join(' ')
}

/** Throws a helpful message for common mistakes, such as a private key. */
function refuseOtherFormats(line: string): void {
  if (/PRIVATE KEY-----|^PuTTY-User-Key-File/.test(line))
    throw new KeyFault('is a private key: send the public key, the line in the .pub file')
  if (/^-{4,5} ?BEGIN /.test(line))
    throw new KeyFault('must be in the one-line format of OpenSSH: convert it with ssh-keygen -i')
}

function typeFault(type: string): string {
  if (type.includes('-cert-v0')) return 'must be a plain public key: certificates are not accepted'
  return `must begin with its type, without options: ${Object.keys(bodyChecks).join(', ')}`
}

/** Decodes base64 strictly, as sshd does. Node's own decoder would skip invalid characters. */
function decodeBase64(text: string): Buffer {
  if (text === '') throw new KeyFault('has no key data after its type')
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text) throw new KeyFault('is damaged: its data is not valid base64')
  return bytes
}

/** Reads the length-prefixed fields of a key blob (RFC 4251 5, `string`). */
class Fields {
  #at = 0

  constructor(private readonly bytes: Buffer) {}

  get atEnd(): boolean {
    return this.#at === this.bytes.length
  }

  next(): Buffer {
    const start = this.#at + 4
    const end = start <= this.bytes.length ? start + this.bytes.readUInt32BE(this.#at) : Infinity
    if (end > this.bytes.length) throw new KeyFault('is damaged: its data is cut off')
    this.#at = end
    return this.bytes.subarray(start, end)
  }

  text(): string {
    return this.next().toString('latin1')
  }

  /** Reads a positive `mpint` without leading zeros. */
  positive(): Buffer {
    const bytes = this.next()
    if (bytes.length === 0 || bytes[0]! >= 0x80) throw new KeyFault('is damaged: a number in it is not positive')
    const first = bytes.findIndex((byte) => byte !== 0)
    if (first < 0) throw new KeyFault('is damaged: a number in it is zero')
    return bytes.subarray(first)
  }
}

function checkEd25519(fields: Fields): void {
  if (fields.next().length !== 32) throw new KeyFault('is damaged: an Ed25519 key has 32 bytes')
}

function checkRsa(fields: Fields, { minRsaBits }: KeyRule): void {
  const exponent = fields.positive()
  const modulus = fields.positive()
  const bits = modulus.length * 8 - Math.clz32(modulus[0]!) + 24
  if (bits < minRsaBits || bits > maxRsaBits)
    throw new KeyFault(`has ${bits} bits: RSA keys need ${minRsaBits} to ${maxRsaBits}`)
  const isUsable = isOdd(modulus) && isOdd(exponent) && exponent.length <= 8 && !exponent.equals(Buffer.of(1))
  if (!isUsable) throw new KeyFault('is damaged: its modulus or exponent is not valid for RSA')
}

function isOdd(number: Buffer): boolean {
  return (number.at(-1)! & 1) === 1
}

const curves = {
  nistp256: { crv: 'P-256', bytes: 32 },
  nistp384: { crv: 'P-384', bytes: 48 },
  nistp521: { crv: 'P-521', bytes: 66 },
} as const

function checkEcdsa(fields: Fields, { type }: KeyRule): void {
  const named = fields.text()
  const curve = Object.entries(curves).find(([name]) => name === named && type.includes(name))?.[1]
  if (!curve) throw new KeyFault(`is damaged: its curve does not match the type ${type}`)
  const point = fields.next()
  if (point.length !== 1 + 2 * curve.bytes || point[0] !== 4 || !isOnCurve(curve.crv, point.subarray(1)))
    throw new KeyFault('is damaged: the key is not a point on its curve')
}

/** True if the point is on the curve. OpenSSL checks this while it imports the coordinates. */
function isOnCurve(crv: string, coordinates: Buffer): boolean {
  const [x, y] = [coordinates.subarray(0, coordinates.length / 2), coordinates.subarray(coordinates.length / 2)]
  try {
    const jwk = { kty: 'EC', crv, x: x.toString('base64url'), y: y.toString('base64url') }
    createPublicKey({ format: 'jwk', key: jwk })
    return true
  } catch {
    return false
  }
}

/** Checks that a security key names an application, which is usually `ssh:`. */
function checkApplication(fields: Fields): void {
  const application = fields.text()
  if (application === '' || application.includes('\0'))
    throw new KeyFault('is damaged: the application of the security key is missing')
}
