import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { webcrypto } from 'node:crypto'
import { isIP } from 'node:net'
import { newSerial, toPem } from '../pki/certificate-parts.js'
import type { KeyedChain } from './certificate.js'

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const hourMs = 3_600_000

/** Lifetime of self-signed certificates. Browsers accept at most 398 days, even if a user trusts the certificate. */
export const selfSignedDays = 397

/** Subject of a certificate. A common name has at most 64 characters (RFC 5280, ub-common-name). */
function subjectOf(target: string): string {
  return target.length <= 64 ? `CN=${target}` : 'CN=Berth'
}

function alternativeName(target: string): SubjectAlternativeNameExtension {
  return new SubjectAlternativeNameExtension([{ type: isIP(target) === 0 ? 'dns' : 'ip', value: target }])
}

export interface SelfSignedOptions {
  /** Lifetime of the certificate in ms. Default: 397 days. */
  readonly lifetimeMs?: number
  /** An additional critical extension: its object id and its value in DER. */
  readonly extension?: { readonly id: string; readonly value: Buffer }
}

/** Creates a self-signed certificate for a name or address. */
export async function makeSelfSigned(target: string, options: SelfSignedOptions = {}): Promise<KeyedChain> {
  const { lifetimeMs = selfSignedDays * 24 * hourMs, extension } = options
  const keys = await makeKeys()
  const now = Date.now()
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: newSerial(),
      name: subjectOf(target),
      notBefore: new Date(now - Math.min(hourMs, lifetimeMs / 2)),
      notAfter: new Date(now + lifetimeMs),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        alternativeName(target),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
        ...(extension ? [new Extension(extension.id, true, new Uint8Array(extension.value))] : []),
      ],
    },
    webcrypto,
  )
  return {
    chainPem: toPem('CERTIFICATE', Buffer.from(certificate.rawData)),
    keyPem: await exportKey(keys.privateKey),
  }
}

/** Creates a key and a certificate request for it, as DER in base64url (RFC 8555, 7.4). */
export async function createRequest(target: string): Promise<{ keyPem: string; csr: string }> {
  const keys = await makeKeys()
  const request = await Pkcs10CertificateRequestGenerator.create(
    // Authorities read the name from subjectAltName. The subject is empty, because an address in it would be rejected.
    { keys, signingAlgorithm: algorithm, extensions: [alternativeName(target)] },
    webcrypto,
  )
  return {
    keyPem: await exportKey(keys.privateKey),
    csr: Buffer.from(request.rawData).toString('base64url'),
  }
}

function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  return toPem('PRIVATE KEY', Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)))
}
