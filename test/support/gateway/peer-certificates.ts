import { identityDnsName, identityUri } from '../../../shared/identity.js'
import { clientAuth, forge, serverAuth, type Forgery, type Pair } from '../attacks/forge.js'
import { createTestPki, hourMs, type TestPki } from './pki.js'

export const hostId = 'h-1'
export const gatewayNames = {
  uris: [identityUri({ role: 'gateway' })],
  dnsNames: ['gateway.berth.internal'],
}
export const agentNames = {
  uris: [identityUri({ role: 'agent', hostId })],
  dnsNames: [identityDnsName({ role: 'agent', hostId })],
}
const otherNames = {
  uris: [identityUri({ role: 'agent', hostId: 'h-2' })],
  dnsNames: [identityDnsName({ role: 'agent', hostId: 'h-2' })],
}

/** TLS settings of an attacker. Security level 0 of OpenSSL accepts any digest. */
export const lax = { ciphers: 'DEFAULT@SECLEVEL=0' }

/** Contents of certificates that must be refused. @param good contents of a valid certificate of the same role */
export function badCertificates(good: Required<Pick<Forgery, 'uris' | 'dnsNames' | 'usages'>>, wrongRole: Forgery) {
  return [
    ['are self-signed', { ...good, selfSigned: true }],
    ['have expired', { ...good, notBeforeMs: Date.now() - 2 * hourMs, notAfterMs: Date.now() - hourMs }],
    ['are not valid yet', { ...good, notBeforeMs: Date.now() + hourMs, notAfterMs: Date.now() + 2 * hourMs }],
    ['name another host', { ...good, ...otherNames }],
    ['name a different role', { ...good, ...wrongRole }],
    ['have no extended key usage', { ...good, usages: [] }],
    [
      'have the extended key usage of clients instead of servers, or vice versa',
      { ...good, usages: [good.usages[0] === clientAuth ? serverAuth : clientAuth] },
    ],
    ['contain the name only as the common name', { ...good, uris: [], dnsNames: [], commonName: good.dnsNames[0]! }],
    ['contain only wildcard names', { ...good, uris: [], dnsNames: ['*.berth.internal', '*.agent.berth.internal'] }],
    ['contain a wildcard name in addition to the role', { ...good, dnsNames: ['*.agent.berth.internal'] }],
    ['contain two roles', { ...good, uris: [...good.uris, ...otherNames.uris] }],
    ['are signed with SHA-1', { ...good, hash: 'SHA-1' }],
    ['are certificates of an authority', { ...good, isAuthority: true }],
  ] as const
}

/** The CA of a fleet, another CA, and a function that issues certificates of the fleet's CA. */
export interface PeerCertificates {
  readonly pki: TestPki
  readonly ca: Pair
  readonly otherCa: Pair
  readonly make: (forgery: Forgery & { selfSigned?: boolean }) => Promise<Pair>
}

export async function createPeerCertificates(): Promise<PeerCertificates> {
  const pki = await createTestPki()
  const ca = { certificatePem: pki.authority.caPem, privateKeyPem: pki.authority.privateKeyPem }
  const otherCa = await forge({ isAuthority: true, commonName: 'Another CA' })
  const make = ({ selfSigned, ...forgery }: Forgery & { selfSigned?: boolean }): Promise<Pair> =>
    forge(selfSigned ? forgery : { ...forgery, issuer: ca })
  return { pki, ca, otherCa, make }
}
