import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PeerCertificate } from 'node:tls'
import { createCsrPem, createPrivateKeyPem } from '../../agent/enrollment/csr.js'
import { signToken } from '../../gateway/join/signed-token.js'
import { ensureAuthority } from '../../gateway/pki/authority.js'
import { BerthError } from '../../shared/errors.js'
import { createPeerCheck, readCertificateIdentity } from '../../shared/identity.js'
import { joinAudience, parseJoinToken } from '../../shared/join-token.js'

const agent = { role: 'agent', hostId: 'h-1' } as const

describe('the private CA', function () {
  let directory: string
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-ca-'))
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true }))

  it('is created only once, even by concurrent gateways, and only root can read it', async () => {
    const made = await Promise.all(Array.from({ length: 8 }, () => ensureAuthority(join(directory, 'pki'), 10)))
    expect(new Set(made.map(({ fingerprint }) => fingerprint)).size).to.equal(1)
    expect(readdirSync(join(directory, 'pki'))).to.deep.equal(['authority.pem'])
    expect(statSync(join(directory, 'pki')).mode & 0o777).to.equal(0o700)
    expect(statSync(join(directory, 'pki/authority.pem')).mode & 0o777).to.equal(0o600)
  })

  it('is never replaced if its file is damaged, and the gateway reports the damage', async () => {
    await ensureAuthority(directory, 10)
    truncateSync(join(directory, 'authority.pem'), 300)
    for (const attempt of [1, 2])
      try {
        await ensureAuthority(directory, 10)
        expect.fail(`attempt ${attempt} succeeded`)
      } catch (error) {
        expect((error as BerthError).code).to.equal('bad_authority')
      }
    expect(statSync(join(directory, 'authority.pem')).size).to.equal(300)
  })

  it('issues certificates for all roles, and openssl accepts these certificates in strict mode', async () => {
    const authority = await ensureAuthority(directory, 10)
    writeFileSync(join(directory, 'ca.pem'), authority.caPem)
    for (const [identity, purpose] of [
      [agent, 'sslserver'],
      [{ role: 'gateway' }, 'sslclient'],
      [{ role: 'join' }, 'sslserver'],
    ] as const) {
      const { certificatePem } = await authority.issue(identity, 3_600_000)
      const path = join(directory, 'leaf.pem')
      writeFileSync(path, certificatePem)
      const args = ['verify', '-x509_strict', '-purpose', purpose, '-CAfile', join(directory, 'ca.pem'), path]
      expect(execFileSync('openssl', args).toString()).to.contain('OK')
      expect(readCertificateIdentity(new X509Certificate(certificatePem)).identity).to.deep.equal(identity)
    }
  })

  it('uses only the public key of a request, and issues no certificate that outlives the CA', async () => {
    const authority = await ensureAuthority(directory, 1)
    const issued = await authority.signRequest(await createCsrPem(createPrivateKeyPem()), agent, 30 * 24 * 3_600_000)
    const certificate = new X509Certificate(issued.certificatePem)
    expect(certificate.subject).to.contain('h-1.agent.berth.internal')
    expect(issued.notBeforeMs).to.be.lessThan(Date.now() - 3_000_000)
    expect(issued.notAfterMs).to.equal(Date.parse(new X509Certificate(authority.caPem).validTo))
    expect(issued.serial).to.equal(certificate.serialNumber)
    expect(issued.notAfterMs).to.equal(Date.parse(certificate.validTo))
  })

  it('refuses requests that are malformed, have a wrong signature, or have an RSA key', async () => {
    const authority = await ensureAuthority(directory, 1)
    const good = await createCsrPem(createPrivateKeyPem())
    const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
    const keyPath = join(directory, 'rsa.pem')
    writeFileSync(keyPath, other.export({ type: 'pkcs8', format: 'pem' }))
    const rsa = execFileSync('openssl', ['req', '-new', '-key', keyPath, '-subj', '/CN=x']).toString()
    const body = Buffer.from(good.replace(/-----.*-----|\s/g, ''), 'base64')
    body[body.length - 5]! ^= 1
    const tampered = `-----BEGIN CERTIFICATE REQUEST-----\n${body.toString('base64')}\n-----END CERTIFICATE REQUEST-----`
    for (const csr of ['', 'junk', good.slice(0, 200), tampered, rsa, 'x'.repeat(100_000)])
      try {
        await authority.signRequest(csr, agent, 1000)
        expect.fail(`signed ${csr.slice(0, 40)}`)
      } catch (error) {
        expect((error as BerthError).code).to.equal('invalid_csr')
      }
  })

  it('signs join tokens that contain each address only once', async () => {
    const authority = await ensureAuthority(directory, 10)
    const addresses = ['lb.example:8081', '192.0.2.1:8081', 'lb.example:8081']
    const content = { subject: 'h-1', id: 'token', expiresAtMs: Date.now() + 60_000, addresses }
    expect(parseJoinToken(signToken(authority, joinAudience, content)).addresses).to.deep.equal(addresses.slice(0, 2))
  })

  it('is used only once to verify each certificate, even if the calls of several gateways alternate', async () => {
    const authority = await ensureAuthority(directory, 10)
    const certificate = new X509Certificate(authority.caPem)
    let verified = 0
    const issuer = {
      get publicKey() {
        verified++
        return certificate.publicKey
      },
    } as X509Certificate
    const check = createPeerCheck({ identity: { role: 'gateway' }, issuers: [issuer] })
    const gateways = await Promise.all([1, 2, 3].map(() => authority.issue({ role: 'gateway' }, 3_600_000)))
    const peers = gateways.map(({ certificatePem }) => ({ raw: new X509Certificate(certificatePem).raw }))
    for (const round of [1, 2])
      for (const [at, peer] of peers.entries())
        expect(check(peer as PeerCertificate).serial, `round ${round}`).to.equal(gateways[at]!.serial)
    expect(verified).to.equal(3)
  })
})
