import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { parseAddress } from '../../shared/addresses.js'
import type { Validity } from './plan-renewal.js'

/** A certificate with its chain and its key, in PEM. */
export interface KeyedChain {
  /** The certificate, followed by its issuers. */
  readonly chainPem: string
  /** Private key in PKCS #8 or another format of OpenSSL, not encrypted. */
  readonly keyPem: string
}

export interface CertificateFacts extends Validity {
  readonly subject: string
  readonly issuer: string
  /** DNS names and addresses in the certificate. */
  readonly names: readonly string[]
  /** SHA-256 of the certificate, in hexadecimal with colons. */
  readonly fingerprint: string
}

const pemBlock = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Parses all certificates in a text. @throws the error of OpenSSL if a certificate is invalid */
export function parseChain(pem: string): X509Certificate[] {
  return (pem.match(pemBlock) ?? []).map((block) => new X509Certificate(block))
}

/** Reads the properties of the first certificate. @throws {Error} if the text contains no certificate */
export function factsOf(chainPem: string): CertificateFacts {
  const [leaf] = parseChain(chainPem)
  if (leaf === undefined) throw new Error('the text contains no certificate')
  return {
    subject: oneLine(leaf.subject),
    issuer: oneLine(leaf.issuer),
    names: namesOf(leaf),
    notBeforeMs: Date.parse(leaf.validFrom),
    notAfterMs: Date.parse(leaf.validTo),
    fingerprint: leaf.fingerprint256,
  }
}

/** True if browsers accept the certificate for this name or address, by its subject alternative names (RFC 9525). */
export function covers(leaf: X509Certificate, target: string): boolean {
  if (isIP(target) !== 0) return leaf.checkIP(target) !== undefined
  return leaf.checkHost(target, { subject: 'never' }) !== undefined
}

/** Joins the parts of a name, which OpenSSL prints on separate lines. */
function oneLine(name: string): string {
  return name.split('\n').filter(Boolean).join(', ')
}

function namesOf(leaf: X509Certificate): string[] {
  const listed = leaf.subjectAltName?.split(', ') ?? []
  const names = listed.flatMap((entry) => /^(?:DNS|IP Address):(.+)$/.exec(entry)?.[1] ?? [])
  return names.map((name) => parseAddress(name)?.text ?? name)
}
