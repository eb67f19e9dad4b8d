import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Pkcs10CertificateRequest,
  PublicKey,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  AuthorityKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  webcrypto,
  X509Certificate as NodeCertificate,
} from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { createFileAtomic } from '../../shared/files.js'
import { extendedKeyUsage, identityDnsName, identityUri, type Identity } from '../../shared/identity.js'
import { newSerial, toPem, wholeSeconds } from './certificate-parts.js'

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const hourMs = 3_600_000

/** Certificates are backdated by this time in ms, but at most by half their lifetime, because clocks differ. */
const maxBackdateMs = hourMs

export interface IssuedCertificate {
  readonly certificatePem: string
  /** Serial number in upper-case hexadecimal. */
  readonly serial: string
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

export interface KeyedCertificate extends IssuedCertificate {
  readonly privateKeyPem: string
}

/** The private CA. It decides which names a certificate contains. Requests only provide the public key. */
export interface Authority {
  readonly caPem: string
  /** SHA-256 of the CA certificate (DER) in lower-case hexadecimal. */
  readonly fingerprint: string
  /** End of the CA's validity in ms since 1970. */
  readonly notAfterMs: number
  /** ECDSA P-256 key as PKCS #8 in PEM. It also signs join tokens. */
  readonly privateKeyPem: string
  readonly publicKeyPem: string
  /**
   * Issues a certificate for the key in a PKCS #10 request.
   * @param nowMs present time, for tests; default: the system clock
   * @throws {BerthError} `invalid_csr` if the request is malformed, not signed by its own key, or has another type of
   * key
   */
  signRequest(csrPem: string, identity: Identity, lifetimeMs: number, nowMs?: number): Promise<IssuedCertificate>
  /** Issues a certificate for a public key, without a request. @param publicKey SubjectPublicKeyInfo (DER) */
  certify(publicKey: Buffer, identity: Identity, lifetimeMs: number): Promise<IssuedCertificate>
  /** Issues a certificate for the gateway itself. @param privateKeyPem ECDSA P-256 key; default: a new key */
  issue(identity: Identity, lifetimeMs: number, privateKeyPem?: string): Promise<KeyedCertificate>
}

/**
 * Reads the authority in `directory`, or creates it. Key and certificate are written atomically to one file with mode
 * 0600. If two processes create it at the same time, both use the same authority.
 */
export async function ensureAuthority(directory: string, caDays: number): Promise<Authority> {
  const path = join(directory, 'authority.pem')
  const existing = await findFile(path)
  if (existing === undefined) await createFileAtomic(path, await createAuthorityPem(caDays), 0o600)
  return loadAuthority(existing ?? (await findFile(path)) ?? '', path)
}

async function findFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new BerthError('internal', 'bad_authority', `read ${path}`, { cause })
  }
}

/** Creates a CA. @returns its private key and its certificate, in PEM */
export async function createAuthorityPem(caDays: number): Promise<string> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const now = Date.now()
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: newSerial(),
      name: `CN=Berth private CA ${randomBytes(4).toString('hex')}, O=Berth`,
      notBefore: new Date(now - hourMs),
      notAfter: new Date(now + caDays * 24 * hourMs),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  )
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
  return toPem('PRIVATE KEY', Buffer.from(pkcs8)) + toPem('CERTIFICATE', Buffer.from(certificate.rawData))
}

/** @param pem private key and certificate @param path file for error messages @throws {BerthError} `bad_authority` */
export async function loadAuthority(pem: string, path: string): Promise<Authority> {
  try {
    const privateKeyPem = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\n/.exec(pem)?.[0] ?? ''
    const caPem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/.exec(pem)?.[0] ?? ''
    checkPair(privateKeyPem, caPem)
    const der = createPrivateKey(privateKeyPem).export({ type: 'pkcs8', format: 'der' })
    const signingKey = await webcrypto.subtle.importKey('pkcs8', new Uint8Array(der), algorithm, false, ['sign'])
    return new PrivateAuthority(new X509Certificate(caPem), signingKey, { privateKeyPem, caPem })
  } catch (cause) {
    throw new BerthError('internal', 'bad_authority', damagedAuthority(path, 'is damaged'), { cause })
  }
}

/** Checks that key and certificate belong together. A damaged file can still contain a valid key or certificate. */
function checkPair(privateKeyPem: string, caPem: string): void {
  const certificate = new NodeCertificate(caPem)
  if (!certificate.checkPrivateKey(createPrivateKey(privateKeyPem)))
    throw new Error('the key does not match the certificate')
  if (!certificate.verify(certificate.publicKey)) throw new Error('the signature of the certificate is not valid')
}

/** Returns an error message that names the problem of the authority, and the command to run. */
function damagedAuthority(path: string, what: string): string {
  return (
    `${path} ${what}: restore it from a backup, or start with a new authority, which every host must join again: ` +
    `mv '${dirname(path)}' '${dirname(path)}.damaged'`
  )
}

class PrivateAuthority implements Authority {
  readonly caPem: string
  readonly privateKeyPem: string
  readonly publicKeyPem: string
  readonly fingerprint: string
  readonly notAfterMs: number

  constructor(
    private readonly certificate: X509Certificate,
    private readonly signingKey: webcrypto.CryptoKey,
    pem: { privateKeyPem: string; caPem: string },
  ) {
    this.caPem = pem.caPem
    this.privateKeyPem = pem.privateKeyPem
    this.publicKeyPem = createPublicKey(pem.privateKeyPem).export({ type: 'spki', format: 'pem' }).toString()
    this.notAfterMs = certificate.notAfter.getTime()
    this.fingerprint = createHash('sha256').update(Buffer.from(certificate.rawData)).digest('hex')
  }

  async signRequest(
    csrPem: string,
    identity: Identity,
    lifetimeMs: number,
    nowMs = Date.now(),
  ): Promise<IssuedCertificate> {
    return this.#sign(await readRequestKey(csrPem), identity, { lifetimeMs, now: nowMs })
  }

  async certify(publicKey: Buffer, identity: Identity, lifetimeMs: number): Promise<IssuedCertificate> {
    return this.#sign(new PublicKey(new Uint8Array(publicKey)), identity, { lifetimeMs, now: Date.now() })
  }

  async issue(identity: Identity, lifetimeMs: number, privateKeyPem = newKeyPem()): Promise<KeyedCertificate> {
    const spki = new PublicKey(new Uint8Array(publicKeyDer(privateKeyPem)))
    return { ...(await this.#sign(spki, identity, { lifetimeMs, now: Date.now() })), privateKeyPem }
  }

  async #sign(
    key: PublicKey,
    identity: Identity,
    { lifetimeMs, now }: { lifetimeMs: number; now: number },
  ): Promise<IssuedCertificate> {
    // If a certificate outlived its authority, connections would fail although the certificate seems valid.
    const notAfterMs = wholeSeconds(Math.min(now + lifetimeMs, this.notAfterMs))
    const notBeforeMs = wholeSeconds(now - Math.min(maxBackdateMs, lifetimeMs / 2))
    const serial = newSerial()
    const certificate = await X509CertificateGenerator.create(
      {
        serialNumber: serial,
        subject: `CN=${identityDnsName(identity)}, O=Berth`,
        issuer: this.certificate.subjectName,
        notBefore: new Date(notBeforeMs),
        notAfter: new Date(notAfterMs),
        publicKey: key,
        signingKey: this.signingKey,
        signingAlgorithm: algorithm,
        extensions: await this.#extensions(key, identity),
      },
      webcrypto,
    )
    const certificatePem = toPem('CERTIFICATE', Buffer.from(certificate.rawData))
    return { certificatePem, serial: serial.toUpperCase(), notBeforeMs, notAfterMs }
  }

  async #extensions(key: PublicKey, identity: Identity) {
    return [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([extendedKeyUsage[identity.role]], true),
      new SubjectAlternativeNameExtension([
        { type: 'url', value: identityUri(identity) },
        { type: 'dns', value: identityDnsName(identity) },
      ]),
      await SubjectKeyIdentifierExtension.create(key, false, webcrypto),
      await AuthorityKeyIdentifierExtension.create(this.certificate, false, webcrypto),
    ]
  }
}

/** Creates an ECDSA P-256 key as PKCS #8 in PEM. */
export function newKeyPem(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Public key of a private key, as SubjectPublicKeyInfo. */
export function publicKeyDer(privateKeyPem: string): Buffer {
  return createPublicKey(privateKeyPem).export({ type: 'spki', format: 'der' })
}

async function readRequestKey(csrPem: string): Promise<PublicKey> {
  const bad = (why: string, cause?: unknown) =>
    new BerthError('invalid', 'invalid_csr', `csr: ${why}`, { field: 'csr', cause })
  if (csrPem.length > 8192) throw bad('must be at most 8 KiB')
  let request: Pkcs10CertificateRequest
  try {
    request = new Pkcs10CertificateRequest(csrPem)
    if (!(await request.verify(webcrypto))) throw new Error('the signature of the certificate request is not valid')
  } catch (cause) {
    throw bad('is malformed, or not signed with its own key', cause)
  }
  const key = createPublicKey({
    key: Buffer.from(request.publicKey.rawData),
    type: 'spki',
    format: 'der',
  })
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw bad('the key must be ECDSA P-256')
  return request.publicKey
}
