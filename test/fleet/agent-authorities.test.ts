import { expect } from 'chai'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findAuthority, installAuthorities } from '../../agent/enrollment/authorities.js'
import { getIdentity, identityPaths } from '../../agent/enrollment/identity.js'
import { createSigningRequest, installCertificate } from '../../agent/enrollment/renewal.js'
import { ensureAuthority, type Authority } from '../../gateway/pki/authority.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { createTestPki, hourMs, type TestPki } from '../support/gateway/pki.js'

describe('the CAs that an agent trusts', () => {
  const identity = { role: 'agent', hostId: 'h-one' } as const
  let pki: TestPki
  let next: Authority
  let directory: string
  beforeEach(async () => {
    pki = await createTestPki()
    next = await ensureAuthority(join(pki.directory, 'next'), 30)
    directory = (await pki.enrol('h-one')).identityDir
  })
  afterEach(() => pki.remove())

  const install = (...authorities: Pick<Authority, 'caPem'>[]) =>
    installAuthorities(
      directory,
      authorities.map(({ caPem }) => caPem),
    )

  async function renewBy(authority: Authority): Promise<void> {
    const csr = await createSigningRequest(directory)
    const { certificatePem } = await authority.signRequest(csr, identity, hourMs)
    await installCertificate(directory, certificatePem)
  }

  it('begin with the CA of the agent’s own certificate, no matter in which order they were received', async () => {
    const { authorities, caPem } = await install(next, pki.authority)
    expect(authorities).to.deep.equal([pki.authority.caPem, next.caPem])
    expect(caPem).to.equal(pki.authority.caPem)
  })

  it('begin with another CA as soon as this CA has renewed the agent’s certificate', async () => {
    await install(pki.authority, next)
    await renewBy(next)
    expect(getIdentity(directory).authorities).to.deep.equal([next.caPem, pki.authority.caPem])
    expect((await install(next)).authorities).to.deep.equal([next.caPem])
  })

  it('can be replaced while the certificate is renewed, and the renewal still succeeds', async () => {
    await createSigningRequest(directory)
    const before = readFileSync(identityPaths(directory).pendingKey, 'utf8')
    await install(pki.authority, next)
    expect(readFileSync(identityPaths(directory).pendingKey, 'utf8')).to.equal(before)
  })

  it('are searched for the fingerprint in a token, and the agent’s own CA is used if no CA matches', async () => {
    const found = await install(pki.authority, next)
    expect(findAuthority(found, next.fingerprint)).to.equal(next.caPem)
    expect(findAuthority(found, 'unknown')).to.equal(pki.authority.caPem)
  })

  it('cannot be replaced by a list without the CA of the agent’s own certificate', async () => {
    expect(await codeOf(install(next))).to.equal('bad_certificate')
    expect(await codeOf(install())).to.equal('bad_certificate')
    expect(getIdentity(directory).authorities).to.deep.equal([pki.authority.caPem])
  })

  it('cannot be the certificate of a gateway, or text that is not a certificate', async () => {
    const { certificatePem } = await pki.gatewayLeaf()
    for (const caPem of [certificatePem, 'text'])
      expect(await codeOf(install(pki.authority, { caPem }))).to.equal('bad_certificate')
  })

  it('are at most four', async () => {
    const more = await Promise.all(['a', 'b', 'c', 'd'].map((name) => ensureAuthority(join(pki.directory, name), 30)))
    expect(await codeOf(install(pki.authority, ...more))).to.equal('bad_certificate')
  })

  it('do not include unknown CAs, so that certificates of unknown CAs are refused', async () => {
    expect(await codeOf(renewBy(next))).to.equal('bad_certificate')
  })
})
