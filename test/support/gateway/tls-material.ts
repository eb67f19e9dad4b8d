import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
  type X509Certificate,
} from '@peculiar/x509'
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  webcrypto,
  type KeyObject,
} from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { isIP } from 'node:net'
import type { Upload } from '../../../gateway/tls/check-upload.js'

const dayMs = 86_400_000
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

export interface LeafOptions {
  readonly notBeforeMs?: number
  readonly notAfterMs?: number
  /** Size of an RSA key. By default the key is ECDSA P-256. */
  readonly rsaBits?: number
  /** Object ids of the extended key usages. By default the certificate is for servers. */
  readonly purposes?: string[]
}

interface Issuer {
  readonly certificate: X509Certificate
  readonly keys: webcrypto.CryptoKeyPair
}

/** A root CA, and an intermediate CA that issues the certificates. */
export class TestAuthority {
  private constructor(
    private readonly root: Issuer,
    private readonly middle: Issuer,
  ) {}

  static async create(): Promise<TestAuthority> {
    const root = await makeIssuer('CN=Test root')
    return new TestAuthority(root, await makeIssuer('CN=Test authority', root))
  }

  get rootPem(): string {
    return `${this.root.certificate.toString('pem')}\n`
  }

  /** Issues a certificate. @returns its chain without the root */
  async issue(name: string, options: LeafOptions = {}): Promise<Upload & { leafPem: string }> {
    const { notBeforeMs = Date.now() - dayMs, notAfterMs = Date.now() + 90 * dayMs, rsaBits } = options
    const key = rsaBits === undefined ? ecKey() : rsaKey(rsaBits)
    const leaf = await X509CertificateGenerator.create(
      {
        serialNumber: serial(),
        subject: `CN=${name}`,
        issuer: this.middle.certificate.subject,
        notBefore: new Date(notBeforeMs),
        notAfter: new Date(notAfterMs),
        signingAlgorithm: algorithm,
        publicKey: await publicKeyOf(key),
        signingKey: this.middle.keys.privateKey,
        extensions: [
          new SubjectAlternativeNameExtension([{ type: isIP(name) ? 'ip' : 'dns', value: name }]),
          new ExtendedKeyUsageExtension(options.purposes ?? ['1.3.6.1.5.5.7.3.1']),
        ],
      },
      webcrypto,
    )
    const leafPem = `${leaf.toString('pem')}\n`
    const certPem = `${leafPem}${this.middle.certificate.toString('pem')}\n`
    return { certPem, leafPem, keyPem: key.export({ type: 'pkcs8', format: 'pem' }).toString() }
  }
}

/** Encrypts a private key with a passphrase. */
export function encrypted(keyPem: string, type: 'pkcs8' | 'sec1' = 'pkcs8'): string {
  const options = { type, format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' } as const
  return createPrivateKey(keyPem).export(options).toString()
}

async function makeIssuer(subject: string, by?: Issuer): Promise<Issuer> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: serial(),
      subject,
      issuer: by?.certificate.subject ?? subject,
      notBefore: new Date(Date.now() - dayMs),
      notAfter: new Date(Date.now() + 365 * dayMs),
      publicKey: keys.publicKey,
      signingKey: (by?.keys ?? keys).privateKey,
      signingAlgorithm: algorithm,
      extensions: [new BasicConstraintsExtension(true, undefined, true)],
    },
    webcrypto,
  )
  return { certificate, keys }
}

function ecKey(): KeyObject {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
}

/** Makes an RSA key. A large key gets five primes, because it would take half a minute with the usual two. */
function rsaKey(bits: number): KeyObject {
  const size = ['-algorithm', 'RSA', '-pkeyopt', `rsa_keygen_bits:${bits}`]
  const primes = bits > 4096 ? ['-pkeyopt', 'rsa_keygen_primes:5'] : []
  return createPrivateKey(execFileSync('openssl', ['genpkey', ...size, ...primes], { stdio: 'pipe' }))
}

async function publicKeyOf(key: KeyObject): Promise<webcrypto.CryptoKey> {
  const der = createPublicKey(key).export({ type: 'spki', format: 'der' })
  const kind = key.asymmetricKeyType === 'rsa' ? { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' } : algorithm
  return webcrypto.subtle.importKey('spki', new Uint8Array(der), kind, true, ['verify'])
}

function serial(): string {
  return `01${randomBytes(15).toString('hex')}`
}
