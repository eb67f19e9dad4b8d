import { X509Certificate } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import { fingerprintOf } from '../../shared/identity.js'
import { getIdentity, replaceIdentity, type AgentIdentity } from './identity.js'

/** Maximum number of trusted CAs. A rotation needs two. Rotations canceled while the host was offline can add more. */
const mostAuthorities = 4

/**
 * Replaces the CAs that this host trusts. The CA of the host's own certificate must be one of them, because the gateway
 * could otherwise not reach the host any more.
 * @param pems certificates of the CAs, in PEM
 * @throws {BerthError} `bad_certificate`
 */
export async function installAuthorities(identityDir: string, pems: readonly string[]): Promise<AgentIdentity> {
  const current = getIdentity(identityDir)
  const own = fingerprintOf(current.caPem)
  const wanted = new Map(pems.map((pem) => parseAuthority(pem)))
  if (wanted.size > mostAuthorities) throw refused(`at most ${mostAuthorities} are allowed`)
  if (!wanted.delete(own)) throw refused('the list must contain the authority that issued the certificate of this host')
  const { privateKeyPem, certificatePem, caPem } = current
  return replaceIdentity(identityDir, { privateKeyPem, certificatePem, caPem, otherAuthorities: [...wanted.values()] })
}

/** Returns the trusted CA (PEM) with this fingerprint, or else the CA that issued the host's certificate. */
export function findAuthority({ authorities, caPem }: AgentIdentity, fingerprint: string): string {
  return authorities.find((pem) => fingerprintOf(pem) === fingerprint) ?? caPem
}

function parseAuthority(pem: string): [fingerprint: string, pem: string] {
  try {
    const certificate = new X509Certificate(pem)
    if (!certificate.ca || !certificate.verify(certificate.publicKey))
      throw new Error('the certificate is not a self-signed certificate of an authority')
    return [fingerprintOf(certificate), certificate.toString()]
  } catch (cause) {
    throw refused('one of the certificates does not belong to a certificate authority', cause)
  }
}

function refused(why: string, cause?: unknown): BerthError {
  return new BerthError('invalid', 'bad_certificate', `the certificate authorities cannot be installed: ${why}`, {
    cause,
  })
}
