import { createHash, X509Certificate } from 'node:crypto'
import type { PeerCertificate } from 'node:tls'
import { BerthError } from './errors.js'
import { uuidPattern } from './guest-rules.js'
import { steadyClock } from './steady-clock.js'

/*
 * The identity in a certificate of the private CA. The URI SAN, a SPIFFE ID (spiffe.io/docs), must be the only URI.
 * It contains the role; for an agent also the host, for a transfer also the move. The DNS SAN repeats the main parts,
 * because TLS checks a DNS name. TLS also checks the chain, and trusts only the private CA.
 */

export type Role = 'agent' | 'gateway' | 'join' | 'transfer'

export interface Identity {
  readonly role: Role
  /** Present only for agents. */
  readonly hostId?: string
  /** Present only for transfers. */
  readonly transfer?: TransferTicket
}

/** Identifies the only transfer for which a certificate is valid: a move of one guest between two hosts. */
export interface TransferTicket {
  readonly moveId: string
  readonly guestUuid: string
  readonly fromHostId: string
  readonly toHostId: string
}

export interface CertificateIdentity {
  readonly identity: Identity
  /** Serial number in upper-case hexadecimal, as node:crypto prints it. */
  readonly serial: string
  /** Public key as SubjectPublicKeyInfo (DER). */
  readonly publicKey: Buffer
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** A host id is one DNS label, because it is part of the certificate's DNS name. */
export const hostIdPattern = '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'

const serverAuth = '1.3.6.1.5.5.7.3.1'
const clientAuth = '1.3.6.1.5.5.7.3.2'

/** OID of the extended key usage that the certificate of each role must have. */
export const extendedKeyUsage: Readonly<Record<Role, string>> = {
  agent: serverAuth,
  gateway: clientAuth,
  join: serverAuth,
  transfer: clientAuth,
}

export function identityUri({ role, hostId, transfer }: Identity): string {
  if (role === 'agent') return `spiffe://berth/agent/${hostId ?? ''}`
  if (!transfer) return `spiffe://berth/${role}`
  const { moveId, guestUuid, fromHostId, toHostId } = transfer
  return `spiffe://berth/transfer/${moveId}/${guestUuid}/${fromHostId}/${toHostId}`
}

/** Returns the DNS name of an identity. TLS clients check the DNS name of a server instead of its address. */
export function identityDnsName({ role, hostId, transfer }: Identity): string {
  if (transfer) return `${transfer.moveId}.transfer.berth.internal`
  return role === 'agent' ? `${hostId ?? ''}.agent.berth.internal` : `${role}.berth.internal`
}

/** Returns the SHA-256 of a certificate (DER), in lower-case hexadecimal. @param certificate the certificate, or its PEM */
export function fingerprintOf(certificate: X509Certificate | string): string {
  const { raw } = typeof certificate === 'string' ? new X509Certificate(certificate) : certificate
  return createHash('sha256').update(raw).digest('hex')
}

/**
 * Reads the identity from a certificate. The chain of the certificate must already have been checked.
 * @throws {BerthError} `bad_certificate` unless the certificate was issued for exactly one role
 */
export function readCertificateIdentity(certificate: X509Certificate): CertificateIdentity {
  const names = subjectAltNames(certificate)
  const uris = names.filter((name) => name.startsWith('URI:'))
  const identity = uris.length === 1 ? parseUri(uris[0]!.slice(4)) : undefined
  if (!identity) throw badCertificate('is not for a gateway, an agent or a transfer between hosts of Berth')
  if (!names.includes(`DNS:${identityDnsName(identity)}`) || names.length !== 2)
    throw badCertificate('contains names that do not match its role')
  if (certificate.ca) throw badCertificate('is a CA certificate')
  if (!certificate.keyUsage?.includes(extendedKeyUsage[identity.role]))
    throw badCertificate(`does not permit the role ${identity.role} in its extended key usage`)
  return {
    identity,
    serial: certificate.serialNumber,
    publicKey: certificate.publicKey.export({ type: 'spki', format: 'der' }),
    notBeforeMs: Date.parse(certificate.validFrom),
    notAfterMs: Date.parse(certificate.validTo),
  }
}

/** The identity that a TLS peer must have. */
export interface PeerRule {
  readonly identity: Identity
  /** If set, one of these CAs must have signed the certificate. TLS can still accept certificates of earlier CAs. */
  readonly issuers?: readonly X509Certificate[]
  /** Returns true if the certificate with this serial number is revoked. If undefined, revocation is not checked. */
  readonly isRevoked?: (serial: string, notBeforeMs: number) => boolean
  /** Accepts a certificate that is not valid yet, or expired at most this many ms ago, so that it can be renewed. */
  readonly renewableForMs?: number
}

/** Number of peers whose certificates a check caches. An agent has one peer for each gateway. */
const cachedPeers = 64

/**
 * Makes a function that checks a TLS peer on every call. It caches valid certificates, because reading one takes about
 * a millisecond. It always checks the expiry, because a connection can outlive its certificate. A temporarily wrong
 * clock does not end connections (see SteadyClock).
 */
export function createPeerCheck(
  rule: PeerRule,
): (peer: PeerCertificate | undefined, nowMs?: number) => CertificateIdentity {
  const known = new Map<string, CertificateIdentity>()
  return (peer, nowMs) => {
    if (!peer?.raw) throw badCertificate('is missing')
    const read = readOnce(known, peer.raw, rule)
    checkIdentity(read, rule)
    checkValidity(read, rule, nowMs)
    return read
  }
}

function readOnce(known: Map<string, CertificateIdentity>, raw: Buffer, rule: PeerRule): CertificateIdentity {
  const key = raw.toString('latin1')
  const earlier = known.get(key)
  if (earlier) return earlier
  const read = readPeer(raw, rule)
  if (known.size >= cachedPeers) known.delete(known.keys().next().value!)
  known.set(key, read)
  return read
}

/**
 * Reads the ticket of a peer that wants to send a guest to this host.
 * @throws {BerthError} `bad_certificate` if the certificate is not a ticket for this host, or is not valid now
 */
export function readTransferTicket(
  peer: PeerCertificate | undefined,
  { issuers, toHostId }: { readonly issuers: readonly X509Certificate[]; readonly toHostId: string },
): TransferTicket {
  if (!peer?.raw) throw badCertificate('is missing')
  const read = readPeer(peer.raw, { identity: { role: 'transfer' }, issuers })
  const { transfer } = read.identity
  if (transfer?.toHostId !== toHostId) throw badCertificate('does not allow a transfer to this host')
  checkValidity(read, { identity: read.identity })
  return transfer
}

function readPeer(raw: Buffer, { issuers }: PeerRule): CertificateIdentity {
  const certificate = new X509Certificate(raw)
  if (issuers && !issuers.some(({ publicKey }) => certificate.verify(publicKey)))
    throw badCertificate('was not issued by the certificate authority of this fleet')
  return readCertificateIdentity(certificate)
}

function checkIdentity(read: CertificateIdentity, rule: PeerRule): void {
  const [have, want] = [identityUri(read.identity), identityUri(rule.identity)]
  if (have !== want) throw badCertificate(`is for ${have}, not for ${want}`)
  if (rule.isRevoked?.(read.serial, read.notBeforeMs)) throw badCertificate('is revoked')
}

function checkValidity(read: CertificateIdentity, { renewableForMs }: PeerRule, nowMs?: number): void {
  if ((nowMs ?? steadyClock.earliest()) >= read.notAfterMs + (renewableForMs ?? 0)) throw badCertificate('has expired')
  if (renewableForMs === undefined && (nowMs ?? steadyClock.latest()) < read.notBeforeMs)
    throw badCertificate('is not valid yet')
}

function subjectAltNames(certificate: X509Certificate): string[] {
  const text = certificate.subjectAltName ?? ''
  // node:crypto quotes a value that could be read as several names (CVE-2021-44532). Berth's names need no quotes.
  if (text.includes('"')) throw badCertificate('has malformed names')
  return text.split(', ')
}

function parseUri(uri: string): Identity | undefined {
  if (uri === 'spiffe://berth/gateway') return { role: 'gateway' }
  if (uri === 'spiffe://berth/join') return { role: 'join' }
  if (uri.startsWith('spiffe://berth/transfer/')) return parseTransfer(uri)
  const hostId = /^spiffe:\/\/berth\/agent\/(.+)$/.exec(uri)?.[1]
  return hostId && new RegExp(hostIdPattern).test(hostId) ? { role: 'agent', hostId } : undefined
}

function parseTransfer(uri: string): Identity | undefined {
  const [moveId = '', guestUuid = '', fromHostId = '', toHostId = ''] = uri.split('/').slice(4)
  const uuids = [moveId, guestUuid].every((id) => new RegExp(uuidPattern).test(id))
  const hosts = [fromHostId, toHostId].every((id) => new RegExp(hostIdPattern).test(id))
  if (!uuids || !hosts) return undefined
  return { role: 'transfer', transfer: { moveId, guestUuid, fromHostId, toHostId } }
}

function badCertificate(why: string): BerthError {
  return new BerthError('unauthenticated', 'bad_certificate', `the certificate of the peer ${why}`)
}
