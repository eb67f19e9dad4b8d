import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { readCertificateIdentity } from '../../shared/identity.js'

/*
 * The agent's identity consists of private key (PKCS #8), certificate and CA certificates, in PEM. They are in one
 * file, so that one rename changes all of them. The first CA has issued the certificate. Further CAs are trusted while
 * the fleet changes to another CA. Earlier versions of the agent read only the first CA.
 */

export interface AgentIdentity {
  readonly hostId: string
  readonly privateKeyPem: string
  readonly certificatePem: string
  /** Certificate of the CA that has issued the agent's certificate. */
  readonly caPem: string
  /** Certificates of all CAs whose gateways and hosts this host trusts. The first one is `caPem`. */
  readonly authorities: readonly string[]
  readonly serial: string
  /** Time in ms since 1970 at which the certificate expires. */
  readonly notAfterMs: number
}

export interface IdentityPaths {
  readonly identity: string
  /** File with the key of a renewal in progress. */
  readonly pendingKey: string
  /** File in which the operator lists serial numbers of revoked gateway certificates, one per line. */
  readonly revoked: string
}

export function identityPaths(identityDir: string): IdentityPaths {
  return {
    identity: join(identityDir, 'identity.pem'),
    pendingKey: join(identityDir, 'pending-key.pem'),
    revoked: join(identityDir, 'revoked-gateways'),
  }
}

/**
 * Reads the identity in `identityDir`; undefined if this host has not joined yet.
 * @throws {BerthError} `bad_identity` if the file is damaged
 */
export function findIdentity(identityDir: string): AgentIdentity | undefined {
  let pem: string
  try {
    pem = readFileSync(identityPaths(identityDir).identity, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new BerthError(
      'internal',
      'bad_identity',
      `cannot read the certificate that identifies this host, in ${identityDir}`,
      { cause },
    )
  }
  try {
    return parseIdentity(pem)
  } catch (cause) {
    const message = `${identityPaths(identityDir).identity} is damaged: restore it from a backup, or ${joinAgain}`
    throw new BerthError('internal', 'bad_identity', message, { cause })
  }
}

const joinAgain =
  'let this host join again with the command that POST /hosts/ID/join-token of its gateway returns; ' +
  'on the machine of the gateway, run berth-setup, or scripts/up in a checkout'

/** @throws {BerthError} `not_joined` or `bad_identity` */
export function getIdentity(identityDir: string): AgentIdentity {
  const identity = findIdentity(identityDir)
  if (identity) return identity
  throw new BerthError(
    'unavailable',
    'not_joined',
    `this host has not joined a gateway (no identity in ${identityDir}): run the command that POST /hosts of the gateway returns`,
  )
}

/**
 * Parses an identity and checks that its parts belong together.
 * @throws {BerthError} `bad_identity`
 */
export function parseIdentity(pem: string): AgentIdentity {
  try {
    const [privateKeyPem = ''] = pem.match(/-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\n/) ?? []
    const [certificatePem = '', ...authorities] =
      pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/g) ?? []
    const [caPem = ''] = authorities
    const certificate = new X509Certificate(certificatePem)
    if (!certificate.checkPrivateKey(createPrivateKey(privateKeyPem)))
      throw new Error('the private key does not belong to the certificate')
    if (!certificate.verify(new X509Certificate(caPem).publicKey))
      throw new Error('the certificate was not issued by the stored certificate authority')
    const { identity, serial, notAfterMs } = readCertificateIdentity(certificate)
    if (identity.role !== 'agent' || !identity.hostId) throw new Error('the certificate is not for an agent')
    return { hostId: identity.hostId, privateKeyPem, certificatePem, caPem, authorities, serial, notAfterMs }
  } catch (cause) {
    throw new BerthError('internal', 'bad_identity', 'the identity of this host is damaged: let the host join again', {
      cause,
    })
  }
}

export interface IdentityParts {
  readonly privateKeyPem: string
  readonly certificatePem: string
  /** Certificate of the CA that has issued `certificatePem`. */
  readonly caPem: string
  /** Further CAs to trust. */
  readonly otherAuthorities?: readonly string[]
}

/** Writes an identity. @throws {BerthError} `bad_identity` if its parts do not belong together */
export async function writeIdentity(identityDir: string, parts: IdentityParts): Promise<AgentIdentity> {
  const identity = await replaceIdentity(identityDir, parts)
  await rm(identityPaths(identityDir).pendingKey, { force: true })
  return identity
}

/** Like `writeIdentity`, but keeps the key of a renewal in progress. */
export async function replaceIdentity(identityDir: string, parts: IdentityParts): Promise<AgentIdentity> {
  const { privateKeyPem, certificatePem, caPem, otherAuthorities = [] } = parts
  const lines = [privateKeyPem, certificatePem, caPem, ...otherAuthorities].map((part) => `${part.trim()}\n`)
  const identity = parseIdentity(lines.join(''))
  await writeFileAtomic(identityPaths(identityDir).identity, lines.join(''), 0o600)
  return identity
}

/** Reads the serial numbers in the revocation file, in upper case. Empty if the file does not exist. */
export function readRevoked(identityDir: string): ReadonlySet<string> {
  let text = ''
  try {
    text = readFileSync(identityPaths(identityDir).revoked, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
  }
  return new Set(text.toUpperCase().match(/^[0-9A-F]+$/gm) ?? [])
}
