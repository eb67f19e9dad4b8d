import { X509Certificate } from 'node:crypto'
import type { PeerCertificate } from 'node:tls'
import { BerthError } from './errors.js'

/*
 * Who a certificate of the private CA speaks for. The URI SAN carries the role and, for agents, the host
 * (SPIFFE ID, spiffe.io/docs: exactly one URI per certificate); the DNS SAN is the same for TLS name checks.
 * The chain itself is checked by TLS against the private CA alone.
 */

export type Role = 'agent' | 'gateway' | 'join'

export interface Identity {
  readonly role: Role
  /** Agents only. */
  readonly hostId?: string
}

export interface CertificateIdentity {
  readonly identity: Identity
  /** Hexadecimal, upper case, as node:crypto prints it. */
  readonly serial: string
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** One DNS label, since it is part of the certificate's DNS name. */
export const hostIdPattern = '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'

const serverAuth = '1.3.6.1.5.5.7.3.1'
const clientAuth = '1.3.6.1.5.5.7.3.2'

/** Extended key usage that a role's certificate must have, as OID. */
export const extendedKeyUsage: Readonly<Record<Role, string>> = {
  agent: serverAuth,
  gateway: clientAuth,
  join: serverAuth,
}

export function identityUri({ role, hostId }: Identity): string {
  return role === 'agent' ? `spiffe://berth/agent/${hostId ?? ''}` : `spiffe://berth/${role}`
}

/** The name an agent's or the join listener's certificate is checked for, instead of its address. */
export function identityDnsName({ role, hostId }: Identity): string {
  return role === 'agent' ? `${hostId ?? ''}.agent.berth.internal` : `${role}.berth.internal`
}

/**
 * The identity in a leaf certificate. Its chain must have been checked already.
 * @throws {BerthError} `bad_certificate` for anything but a certificate made for exactly one role
 */
export function readCertificateIdentity(certificate: X509Certificate): CertificateIdentity {
  const names = subjectAltNames(certificate)
  const uris = names.filter((name) => name.startsWith('URI:'))
  const identity = uris.length === 1 ? parseUri(uris[0]!.slice(4)) : undefined
  if (!identity) throw badCertificate('names no Berth role')
  if (!names.includes(`DNS:${identityDnsName(identity)}`) || names.length !== 2)
    throw badCertificate('has other names than its role')
  if (certificate.ca) throw badCertificate('is an authority, not a leaf')
  if (!certificate.keyUsage?.includes(extendedKeyUsage[identity.role]))
    throw badCertificate(`may not be used as ${identity.role}`)
  return {
    identity,
    serial: certificate.serialNumber,
    notBeforeMs: Date.parse(certificate.validFrom),
    notAfterMs: Date.parse(certificate.validTo),
  }
}

export interface PeerRule {
  readonly identity: Identity
  /** The authority that must have signed it, where TLS may have checked the chain against an earlier one. */
  readonly issuer?: X509Certificate
  /** Serial numbers that are no longer worth anything, or undefined for "not checked". */
  readonly isRevoked?: (serial: string) => boolean
}

/**
 * A check of TLS peers, for every call: remembers the last certificate it read, since a connection's stays
 * the same. Expiry is checked again each time: a connection may outlive its certificate.
 */
export function createPeerCheck(
  rule: PeerRule,
): (peer: PeerCertificate | undefined, nowMs?: number) => CertificateIdentity {
  let last: { raw: Buffer; read: CertificateIdentity } | undefined
  return (peer, nowMs = Date.now()) => {
    if (!peer?.raw) throw badCertificate('is missing')
    if (!last?.raw.equals(peer.raw)) last = { raw: peer.raw, read: readPeer(peer.raw, rule) }
    checkIdentity(last.read, rule, nowMs)
    return last.read
  }
}

function readPeer(raw: Buffer, { issuer }: PeerRule): CertificateIdentity {
  const certificate = new X509Certificate(raw)
  if (issuer && !certificate.verify(issuer.publicKey)) throw badCertificate('is of another authority')
  return readCertificateIdentity(certificate)
}

function checkIdentity(read: CertificateIdentity, rule: PeerRule, nowMs: number): void {
  const [have, want] = [identityUri(read.identity), identityUri(rule.identity)]
  if (have !== want) throw badCertificate(`is ${have}, not ${want}`)
  if (nowMs >= read.notAfterMs) throw badCertificate('has expired')
  if (nowMs < read.notBeforeMs) throw badCertificate('is not valid yet')
  if (rule.isRevoked?.(read.serial)) throw badCertificate('is revoked')
}

function subjectAltNames(certificate: X509Certificate): string[] {
  const text = certificate.subjectAltName ?? ''
  // node:crypto quotes values that could be taken for several names (CVE-2021-44532); ours never need it.
  if (text.includes('"')) throw badCertificate('has malformed names')
  return text.split(', ')
}

function parseUri(uri: string): Identity | undefined {
  if (uri === 'spiffe://berth/gateway') return { role: 'gateway' }
  if (uri === 'spiffe://berth/join') return { role: 'join' }
  const hostId = /^spiffe:\/\/berth\/agent\/(.+)$/.exec(uri)?.[1]
  return hostId && new RegExp(hostIdPattern).test(hostId) ? { role: 'agent', hostId } : undefined
}

function badCertificate(why: string): BerthError {
  return new BerthError('unauthenticated', 'bad_certificate', `peer certificate ${why}`)
}
