import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { BerthError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { getIdentity, identityPaths, writeIdentity, type AgentIdentity } from './identity.js'

/*
 * To renew the agent's certificate, the gateway gets a signing request from the agent and sends back a certificate. The
 * key of an unfinished renewal stays on disk, so that each step can be repeated after a crash.
 */

/** Creates a request for the next certificate. Repeated requests use the same key until a renewal succeeds. */
export async function createSigningRequest(identityDir: string): Promise<string> {
  // Loaded only here, because the module takes several MB of memory and is needed only every few weeks.
  const { createCsrPem, createPrivateKeyPem } = await import('./csr.js')
  const path = identityPaths(identityDir).pendingKey
  const pending = await findPendingKey(path)
  if (pending !== undefined) return createCsrPem(pending)
  const privateKeyPem = createPrivateKeyPem()
  await writeFileAtomic(path, privateKeyPem, 0o600)
  return createCsrPem(privateKeyPem)
}

/**
 * Installs the certificate that the gateway sent for the last renewal request.
 * @throws {BerthError} `bad_certificate` if the certificate is for another key or host, or from another CA
 */
export async function installCertificate(identityDir: string, certificatePem: string): Promise<AgentIdentity> {
  const current = getIdentity(identityDir)
  const certificate = parseCertificate(certificatePem)
  if (certificate.raw.equals(new X509Certificate(current.certificatePem).raw)) return current
  const privateKeyPem = await findPendingKey(identityPaths(identityDir).pendingKey)
  if (privateKeyPem === undefined || !certificate.checkPrivateKey(createPrivateKey(privateKeyPem)))
    throw badCertificate('does not belong to the key of the last renewal request')
  const caPem = issuerOf(certificate, current)
  checkRenewed(certificate, current)
  return writeIdentity(identityDir, {
    privateKeyPem,
    certificatePem: certificate.toString(),
    caPem,
    otherAuthorities: current.authorities.filter((other) => other !== caPem),
  })
}

/** Returns the trusted CA, in PEM, that has issued the certificate. */
function issuerOf(certificate: X509Certificate, { authorities }: AgentIdentity): string {
  const issuer = authorities.find((pem) => certificate.verify(new X509Certificate(pem).publicKey))
  if (issuer !== undefined) return issuer
  throw badCertificate('was not issued by a certificate authority of the fleet that this host has joined')
}

function checkRenewed(certificate: X509Certificate, current: AgentIdentity): void {
  const before = new X509Certificate(current.certificatePem)
  if (certificate.subjectAltName !== before.subjectAltName) throw badCertificate('is for another host')
  if (Date.parse(certificate.validTo) <= steadyClock.earliest()) throw badCertificate('has expired')
}

function parseCertificate(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (cause) {
    throw badCertificate('cannot be read', cause)
  }
}

/** Reads the pending key. Ignores a damaged key, because no certificate was installed for it. */
async function findPendingKey(path: string): Promise<string | undefined> {
  try {
    const pem = await readFile(path, 'utf8')
    createPrivateKey(pem)
    return pem
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' || code.startsWith('ERR_OSSL') || code === 'ERR_INVALID_ARG_VALUE') return undefined
    throw cause
  }
}

function badCertificate(why: string, cause?: unknown): BerthError {
  return new BerthError('invalid', 'bad_certificate', `the certificate ${why}`, { cause })
}
