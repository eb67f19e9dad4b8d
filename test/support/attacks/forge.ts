import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  PublicKey,
  SubjectAlternativeNameExtension,
  X509Certificate,
  X509CertificateGenerator,
  type Extension,
} from '@peculiar/x509'
import { createPrivateKey, generateKeyPairSync, randomBytes, webcrypto } from 'node:crypto'

const p256 = { name: 'ECDSA', namedCurve: 'P-256' }

export const clientAuth = '1.3.6.1.5.5.7.3.2'
export const serverAuth = '1.3.6.1.5.5.7.3.1'

export interface Pair {
  readonly certificatePem: string
  readonly privateKeyPem: string
}

/** Contents of a certificate that an attacker could create. Defaults: those of a gateway's certificate, self-signed. */
export interface Forgery {
  /** Issuer of the certificate. If absent, the certificate is self-signed. */
  readonly issuer?: Pair
  readonly commonName?: string
  readonly uris?: readonly string[]
  readonly dnsNames?: readonly string[]
  readonly usages?: readonly string[]
  readonly notBeforeMs?: number
  readonly notAfterMs?: number
  readonly hash?: 'SHA-1' | 'SHA-256'
  readonly isAuthority?: boolean
}

export async function forge(forgery: Forgery): Promise<Pair> {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const issuer = forgery.issuer
  const algorithm = { ...p256, hash: forgery.hash ?? 'SHA-256' }
  const name = `CN=${forgery.commonName ?? 'gateway.berth.internal'}`
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: `4${randomBytes(8).toString('hex').slice(1)}`,
      subject: name,
      issuer: issuer ? new X509Certificate(issuer.certificatePem).subjectName : name,
      notBefore: new Date(forgery.notBeforeMs ?? Date.now() - 60_000),
      notAfter: new Date(forgery.notAfterMs ?? Date.now() + 3_600_000),
      publicKey: new PublicKey(new Uint8Array(publicKey.export({ type: 'spki', format: 'der' }))),
      signingKey: await signingKey(issuer?.privateKeyPem ?? privateKeyPem, algorithm),
      signingAlgorithm: algorithm,
      extensions: extensionsOf(forgery),
    },
    webcrypto,
  )
  return { certificatePem: `${certificate.toString('pem')}\n`, privateKeyPem }
}

function extensionsOf({ uris = [], dnsNames = [], usages = [], isAuthority = false }: Forgery): Extension[] {
  const names = [
    ...uris.map((value) => ({ type: 'url' as const, value })),
    ...dnsNames.map((value) => ({ type: 'dns' as const, value })),
  ]
  return [
    new BasicConstraintsExtension(isAuthority, undefined, true),
    ...(names.length > 0 ? [new SubjectAlternativeNameExtension(names)] : []),
    ...(usages.length > 0 ? [new ExtendedKeyUsageExtension([...usages])] : []),
  ]
}

function signingKey(pem: string, algorithm: object): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(pem).export({ type: 'pkcs8', format: 'der' })
  return webcrypto.subtle.importKey('pkcs8', der, algorithm as webcrypto.EcKeyImportParams, false, ['sign'])
}
