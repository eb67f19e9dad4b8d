import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { parseAddress } from '../../shared/addresses.js'
import type { Validity } from './plan-renewal.js'

/** A certificate with the chain to its issuer, and its key; PEM. */
export interface KeyedChain {
  /** The certificate itself comes first. */
  readonly chainPem: string
  /** PKCS #8 or another format of OpenSSL, not encrypted. */
  readonly keyPem: string
}

/** The content of a certificate. */
export interface CertificateFacts extends Validity {
  readonly subject: string
  readonly issuer: string
  /** Its DNS names and addresses. */
  readonly names: readonly string[]
  /** SHA-256, hexadecimal with colons. */
  readonly fingerprint: string
}

const pemBlock = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** @throws {Error} of OpenSSL if one cannot be read */
export function parseChain(pem: string): X509Certificate[] {
  return (pem.match(pemBlock) ?? []).map((block) => new X509Certificate(block))
}

/** @throws {Error} if the text contains no certificate */
export function factsOf(chainPem: string): CertificateFacts {
  const [leaf] = parseChain(chainPem)
  if (leaf === undefined) throw new Error('no certificate')
  return {
    subject: oneLine(leaf.subject),
    issuer: oneLine(leaf.issuer),
    names: namesOf(leaf),
    notBeforeMs: Date.parse(leaf.validFrom),
    notAfterMs: Date.parse(leaf.validTo),
    fingerprint: leaf.fingerprint256,
  }
}

/** True if browsers accept the certificate for this name or address: only by its alternative names (RFC 9525). */
export function covers(leaf: X509Certificate, target: string): boolean {
  if (isIP(target) !== 0) return leaf.checkIP(target) !== undefined
  return leaf.checkHost(target, { subject: 'never' }) !== undefined
}

/** OpenSSL prints one part on each line. */
function oneLine(name: string): string {
  return name.split('\n').filter(Boolean).join(', ')
}

function namesOf(leaf: X509Certificate): string[] {
  const listed = leaf.subjectAltName?.split(', ') ?? []
  const names = listed.flatMap((entry) => /^(?:DNS|IP Address):(.+)$/.exec(entry)?.[1] ?? [])
  return names.map((name) => parseAddress(name)?.text ?? name)
}
