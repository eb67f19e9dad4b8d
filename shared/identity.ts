import { X509Certificate } from 'node:crypto'
import type { PeerCertificate } from 'node:tls'
import { BerthError } from './errors.js'
import { steadyClock } from './steady-clock.js'

/*
 * The identity in a certificate of the private CA. The URI SAN has the role and, for agents, the host (SPIFFE ID,
 * spiffe.io/docs: exactly one URI per certificate); the DNS SAN has the same for TLS name checks. TLS itself checks the
 * chain, against the private CA only.
 */

export type Role = 'agent' | 'gateway' | 'join'

export interface Identity {
  readonly role: Role
  /** Only for agents. */
  readonly hostId?: string
}

export interface CertificateIdentity {
  readonly identity: Identity
  /** Hexadecimal, upper case, as node:crypto prints it. */
  readonly serial: string
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** One DNS label, as it is part of the certificate's DNS name. */
export const hostIdPattern = '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'

const serverAuth = '1.3.6.1.5.5.7.3.1'
const clientAuth = '1.3.6.1.5.5.7.3.2'

/** OID of the extended key usage that a role's certificate must have. */
export const extendedKeyUsage: Readonly<Record<Role, string>> = {
  agent: serverAuth,
  gateway: clientAuth,
  join: serverAuth,
}

export function identityUri({ role, hostId }: Identity): string {
  return role === 'agent' ? `spiffe://berth/agent/${hostId ?? ''}` : `spiffe://berth/${role}`
}

/** DNS name for which an agent's or the join listener's certificate is checked, instead of its address. */
export function identityDnsName({ role, hostId }: Identity): string {
  return role === 'agent' ? `${hostId ?? ''}.agent.berth.internal` : `${role}.berth.internal`
}

/**
 * Reads the identity in a certificate whose chain has been checked.
 * @throws {BerthError} `bad_certificate` for anything but a certificate made for exactly one role
 */
export function readCertificateIdentity(certificate: X509Certificate): CertificateIdentity {
  const names = subjectAltNames(certificate)
  const uris = names.filter((name) => name.startsWith('URI:'))
  const identity = uris.length === 1 ? parseUri(uris[0]!.slice(4)) : undefined
  if (!identity) throw badCertificate('does not name a Berth role')
  if (!names.includes(`DNS:${identityDnsName(identity)}`) || names.length !== 2)
    throw badCertificate('has other names than its role')
  if (certificate.ca) throw badCertificate('is an authority, not a leaf')
  if (!certificate.keyUsage?.includes(extendedKeyUsage[identity.role]))
    throw badCertificate(`is not allowed to be used as ${identity.role}`)
  return {
    identity,
    serial: certificate.serialNumber,
    notBeforeMs: Date.parse(certificate.validFrom),
    notAfterMs: Date.parse(certificate.validTo),
  }
}

/** The identity that a TLS peer must have. */
export interface PeerRule {
  readonly identity: Identity
  /** The authority that must have signed it; needed where TLS may have checked the chain against an earlier one. */
  readonly issuer?: X509Certificate
  /** True if a serial number is revoked; undefined: not checked. */
  readonly isRevoked?: (serial: string) => boolean
  /**
   * Accepts a certificate up to this long after its expiry, and before its beginning. Only for its renewal. Default:
   * only while it is valid.
   */
  readonly renewableForMs?: number
}

/**
 * Makes a check of TLS peers for every call. It caches the last certificate, as a connection's stays the same, but
 * checks expiry each time, as a connection may outlive its certificate. A temporarily wrong clock does not end
 * connections: see SteadyClock.
 */
export function createPeerCheck(
  rule: PeerRule,
): (peer: PeerCertificate | undefined, nowMs?: number) => CertificateIdentity {
  let last: { raw: Buffer; read: CertificateIdentity } | undefined
  return (peer, nowMs) => {
    if (!peer?.raw) throw badCertificate('is missing')
    if (!last?.raw.equals(peer.raw)) last = { raw: peer.raw, read: readPeer(peer.raw, rule) }
    checkIdentity(last.read, rule)
    checkValidity(last.read, rule, nowMs)
    return last.read
  }
}

function readPeer(raw: Buffer, { issuer }: PeerRule): CertificateIdentity {
  const certificate = new X509Certificate(raw)
  if (issuer && !certificate.verify(issuer.publicKey)) throw badCertificate('was issued by another authority')
  return readCertificateIdentity(certificate)
}

function checkIdentity(read: CertificateIdentity, rule: PeerRule): void {
  const [have, want] = [identityUri(read.identity), identityUri(rule.identity)]
  if (have !== want) throw badCertificate(`is ${have}, not ${want}`)
  if (rule.isRevoked?.(read.serial)) throw badCertificate('is revoked')
}

function checkValidity(read: CertificateIdentity, { renewableForMs }: PeerRule, nowMs?: number): void {
  if ((nowMs ?? steadyClock.earliest()) >= read.notAfterMs + (renewableForMs ?? 0)) throw badCertificate('has expired')
  if (renewableForMs === undefined && (nowMs ?? steadyClock.latest()) < read.notBeforeMs)
    throw badCertificate('is not valid yet')
}

function subjectAltNames(certificate: X509Certificate): string[] {
  const text = certificate.subjectAltName ?? ''
  // node:crypto quotes values that could pass for several names (CVE-2021-44532); ours never need quotes.
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
