import { createPrivateKey, type KeyObject, type X509Certificate } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import { covers, parseChain, type KeyedChain } from './certificate.js'

export const uploadCodes = [
  'certificate_invalid',
  'certificate_expired',
  'certificate_not_yet_valid',
  'certificate_name_mismatch',
  'certificate_chain_incomplete',
  'certificate_key_size',
  'certificate_unusable',
  'private_key_invalid',
  'private_key_encrypted',
  'private_key_mismatch',
] as const
type UploadCode = (typeof uploadCodes)[number]

export interface Upload {
  readonly certPem: string
  readonly keyPem: string
}

export interface UploadContext {
  /** Name or address for which the certificate must be valid. */
  readonly target: string
  readonly nowMs: number
  /** Trusted root certificates. A chain can end before its root. */
  readonly roots: readonly X509Certificate[]
}

const maxChain = 10

/**
 * Checks an uploaded certificate and sorts its chain: first the certificate of the key, then its issuers in order.
 * @throws {BerthError} one of `uploadCodes`; the message contains no part of the key
 */
export function checkUpload({ certPem, keyPem }: Upload, context: UploadContext): KeyedChain {
  const key = readKey(keyPem)
  const given = readCertificates(certPem)
  const leaf = given.find((certificate) => certificate.checkPrivateKey(key))
  if (leaf === undefined)
    throw bad('private_key_mismatch', 'key_pem', 'the private key does not belong to any of the certificates')
  checkKeySize(leaf)
  checkLeaf(leaf, context)
  const chain = orderChain(leaf, given, context.roots)
  for (const certificate of chain) checkDates(certificate, context.nowMs)
  return {
    chainPem: chain.map((certificate) => certificate.toString()).join(''),
    keyPem: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function bad(code: UploadCode, field: 'cert_pem' | 'key_pem' | 'target', why: string): BerthError {
  return new BerthError('invalid', code, `${field}: ${why}`, { field })
}

/** Parses the key. Errors have no cause, because a cause could quote the key. */
function readKey(pem: string): KeyObject {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem))
    throw bad('private_key_encrypted', 'key_pem', 'the private key has a passphrase: remove it first')
  try {
    return createPrivateKey(pem)
  } catch {
    throw bad('private_key_invalid', 'key_pem', 'must be a private key in PEM')
  }
}

function readCertificates(pem: string): X509Certificate[] {
  const why = `must be one to ${maxChain} certificates in PEM`
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem))
    throw bad('certificate_invalid', 'cert_pem', 'must not contain a private key: send the key in key_pem')
  try {
    const found = parseChain(pem)
    if (found.length > 0 && found.length <= maxChain) return found
  } catch {
    throw bad('certificate_invalid', 'cert_pem', why)
  }
  throw bad('certificate_invalid', 'cert_pem', why)
}

const curves = ['prime256v1', 'secp384r1', 'secp521r1']
const rsaBits = { least: 2048, most: 4096 }

/** Rejects short keys, and keys so long that a few clients' handshakes would block all other clients. */
function checkKeySize({ publicKey }: X509Certificate): void {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = publicKey
  const isCurve = type === 'ec' && curves.includes(details?.namedCurve ?? '')
  const bits = type === 'rsa' ? (details?.modulusLength ?? 0) : 0
  if (isCurve || (bits >= rsaBits.least && bits <= rsaBits.most)) return
  const why = `must be RSA of ${rsaBits.least} to ${rsaBits.most} bits, or ECDSA P-256, P-384 or P-521`
  throw bad('certificate_key_size', 'key_pem', why)
}

/** Checks a stored certificate again for the present time and `target`. @throws {BerthError} one of `uploadCodes` */
export function checkStored(chainPem: string, context: Pick<UploadContext, 'target' | 'nowMs'>): void {
  for (const leaf of parseChain(chainPem).slice(0, 1)) checkLeaf(leaf, context)
}

const serverAuth = '1.3.6.1.5.5.7.3.1'

function checkLeaf(leaf: X509Certificate, { target, nowMs }: Pick<UploadContext, 'target' | 'nowMs'>): void {
  checkDates(leaf, nowMs)
  const purposes = leaf.keyUsage as string[] | undefined
  if (purposes !== undefined && !purposes.includes(serverAuth))
    throw bad(
      'certificate_unusable',
      'cert_pem',
      'the certificate cannot be used for a TLS server, because its extended key usage lacks serverAuth',
    )
  if (!covers(leaf, target))
    throw bad('certificate_name_mismatch', 'target', `the certificate is not valid for ${target}`)
}

function checkDates(certificate: X509Certificate, nowMs: number): void {
  const { validFrom, validTo } = certificate
  if (Date.parse(validTo) <= nowMs) throw bad('certificate_expired', 'cert_pem', `a certificate expired at ${validTo}`)
  if (Date.parse(validFrom) > nowMs)
    throw bad('certificate_not_yet_valid', 'cert_pem', `a certificate is not valid before ${validFrom}`)
}

/** Sorts the chain from the leaf to a certificate that is self-signed or signed by a known root. */
function orderChain(
  leaf: X509Certificate,
  given: readonly X509Certificate[],
  roots: readonly X509Certificate[],
): X509Certificate[] {
  const chain = [leaf]
  for (let last = leaf; !isSelfSigned(last);) {
    const issuer = given.find((candidate) => !chain.includes(candidate) && isIssuedBy(last, candidate))
    if (issuer !== undefined) chain.push((last = issuer))
    else if (roots.some((root) => isIssuedBy(last, root))) break
    else
      throw bad(
        'certificate_chain_incomplete',
        'cert_pem',
        `the chain is incomplete: add the certificate of ${issuerOf(last)}`,
      )
  }
  return chain
}

/** True if the certificate is signed with its own key, even if it does not permit this use of the key. */
function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.subject === certificate.issuer && certificate.verify(certificate.publicKey)
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}

function issuerOf({ issuer }: X509Certificate): string {
  return issuer.split('\n').join(', ').slice(0, 200)
}
