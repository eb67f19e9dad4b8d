import { expect } from 'chai'
import { join } from 'node:path'
import { createCsrPem, createPrivateKeyPem } from '../../agent/enrollment/csr.js'
import { getIdentity, writeIdentity } from '../../agent/enrollment/identity.js'
import { installCertificate, createSigningRequest } from '../../agent/enrollment/renewal.js'
import { HostStore } from '../../gateway/fleet/host-store.js'
import { connectForRenewal } from '../../gateway/fleet/agents/renewal-connection.js'
import { ensureAuthority, type Authority, type KeyedCertificate } from '../../gateway/pki/authority.js'
import { BerthError } from '../../shared/errors.js'
import { createTestPki, hourMs, type TestPki } from '../support/gateway/pki.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

describe('the regular renewal of certificates', function () {
  let test: TestFleet
  afterEach(() => test.close())

  it('does not interrupt calls or make a host appear offline, even if certificates are valid for only 9 seconds', async () => {
    // Certificates are renewed after two thirds of this lifetime. The last third is enough for slow renewals.
    const lifetimeMs = 9000
    test = await startTestFleet({ certificates: { leaf_hours: lifetimeMs / hourMs } })
    const { view } = test.fleet
    const { hostId, agent } = await test.addHost('one', { guests: 10 })
    const uuid = agent.guests()[0]!.uuid
    const serials = new Set<string>()
    let wasAway = 0
    const failures: string[] = []
    const until = Date.now() + 60_000
    while (serials.size < 4 && Date.now() < until) {
      serials.add(agent.tls.identity().serial)
      if (view.findHost(hostId)?.state !== 'online') wasAway++
      await test.fleet
        .agent(hostId)
        .guests.getGuestUsage({ uuid })
        .catch((error: BerthError) => failures.push(error.message))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    agent.update(uuid, { statusReason: 'seen' })
    await test.fleet.reached(hostId, agent.revision)
    expect(view.findGuest(uuid)?.guest.statusReason).to.equal('seen')
    expect(failures).to.deep.equal([])
    expect(wasAway).to.equal(0)
    expect(serials.size).to.equal(4)
    expect(view.findHost(hostId)!.certificateNotAfterMs).to.be.greaterThan(Date.now())
  })
})

describe('the renewal of a certificate that is not valid now', function () {
  let test: TestFleet
  const dayMs = 24 * hourMs
  let authority: Authority
  let foreign: TestPki
  let leaf: KeyedCertificate
  let hosts = 0
  before(async () => {
    foreign = await createTestPki()
    leaf = await foreign.gatewayLeaf()
    test = await startTestFleet({ agents: { reconnect_ms: 200 } })
    authority = await ensureAuthority(join(test.directory, 'pki'), 30)
  })
  after(async () => {
    await test.close()
    await foreign.remove()
  })

  interface Given {
    /** Age in days of the certificate, which is issued for 30 days. Negative: the certificate is not valid yet. */
    readonly issuedDaysAgo: number
    readonly issuer?: 'own' | 'foreign'
    readonly known?: boolean
    /** Number of earlier renewals whose certificates the agent did not install. Default: 0. */
    readonly failed?: number
  }

  /** Gives an offline host another certificate, and lets the host connect again. */
  async function comeBack(name: string, { issuedDaysAgo, issuer = 'own', known = true, failed = 0 }: Given) {
    const { hostId, agent } = await test.addHost(name, { guests: 1, firstId: ++hosts })
    const { view } = test.fleet
    await agent.stop()
    const [privateKeyPem, identity] = [createPrivateKeyPem(), { role: 'agent', hostId } as const]
    const csr = await createCsrPem(privateKeyPem)
    const signer = issuer === 'own' ? authority : foreign.authority
    const issued = await signer.signRequest(csr, identity, 30 * dayMs, Date.now() - issuedDaysAgo * dayMs)
    const parts = { privateKeyPem, certificatePem: issued.certificatePem, caPem: signer.caPem }
    await writeIdentity(join(test.directory, `agent-${name}`), parts)
    const others = Array.from({ length: failed }, (_, n) => `ABC${n}`)
    const serials = [known ? issued.serial : 'ABCD', ...others]
    const valid = { serials, certificateNotAfterMs: issued.notAfterMs }
    await new HostStore(test.store).update(hostId, (record) => ({ ...record, ...valid }))
    await waitFor(() => view.findHost(hostId)?.certificateNotAfterMs === issued.notAfterMs, {
      what: 'the record',
    })
    await waitFor(() => view.findHost(hostId)?.state === 'offline', { what: 'away' })
    await agent.resume()
    return { hostId, agent, serial: issued.serial }
  }

  const stateOf = (hostId: string): string | undefined => test.fleet.view.findHost(hostId)?.state
  const serialOf = (agent: LabAgent): string => agent.tls.identity().serial

  for (const [what, issuedDaysAgo] of [
    ['expired 10 days ago', 40],
    ['expired 179 days ago', 209],
    ['becomes valid in 25 days', -25],
    ['becomes valid in 10 years', -3650],
  ] as const)
    it(`lets a host whose certificate ${what} come online again`, async () => {
      const { hostId, agent, serial } = await comeBack(`back${issuedDaysAgo}`, { issuedDaysAgo })
      await waitFor(() => stateOf(hostId) === 'online', { what: 'online' })
      expect(serialOf(agent)).not.to.equal(serial)
      expect(test.fleet.view.findHost(hostId)!.certificateNotAfterMs).to.be.within(
        Date.now() + 29 * dayMs,
        Date.now() + 31 * dayMs,
      )
      const uuid = agent.guests()[0]!.uuid
      await test.fleet.agent(hostId).guests.getGuestUsage({ uuid })
    })

  describe('is refused', () => {
    const cases = [
      ['that expired 181 days ago', { issuedDaysAgo: 211 }],
      ['that expired and is revoked', { issuedDaysAgo: 40, known: false }],
      ['that expired and was issued by another authority', { issuedDaysAgo: 40, issuer: 'foreign' }],
      ['that was issued by another authority', { issuedDaysAgo: 1, issuer: 'foreign' }],
    ] as const
    let refused: Awaited<ReturnType<typeof comeBack>>[]
    before(async () => {
      refused = await Promise.all(cases.map(([, given], index) => comeBack(`refused${index}`, given)))
      // Hosts try to connect at least once per second. In these 3 s, all attempts must fail.
      await new Promise((resolve) => setTimeout(resolve, 3000))
    })

    for (const [index, [what]] of cases.entries())
      it(`for a certificate ${what}`, () => {
        const { hostId, agent, serial } = refused[index]!
        expect(stateOf(hostId)).to.equal('offline')
        expect(serialOf(agent)).to.equal(serial)
      })
  })

  it('succeeds even if the host did not install the certificates of many earlier renewals', async () => {
    const { hostId, agent, serial } = await comeBack('many', { issuedDaysAgo: 40, failed: 15 })
    await waitFor(() => stateOf(hostId) === 'online', { what: 'online' })
    expect(serialOf(agent)).not.to.equal(serial)
    const { records } = await new HostStore(test.store).list()
    expect(records.find(({ id }) => id === hostId)?.serials).to.include(serial)
  })

  it('uses a connection that permits only the calls for the renewal', () => {
    const target = { hostId: 'h-one', address: '127.0.0.1:1', caPems: [foreign.authority.caPem] }
    const connection = connectForRenewal({ ...target, leaf, isRevoked: () => false, silenceMs: 1000 })
    connection.close()
    expect(Object.keys(connection)).to.have.members(['certificates', 'peer', 'close'])
  })
})

describe('the renewal of certificates by the agent', () => {
  let pki: TestPki
  before(async () => {
    pki = await createTestPki()
  })
  after(() => pki.remove())

  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'ok',
      (error: unknown) => (error instanceof BerthError ? error.code : String(error)),
    )

  it('succeeds even if the agent requests or installs the certificate twice', async () => {
    const { identityDir } = await pki.enrol('h-repeat')
    const [first, second] = [await createSigningRequest(identityDir), await createSigningRequest(identityDir)]
    const identity = { role: 'agent', hostId: 'h-repeat' } as const
    const issued = await pki.authority.signRequest(first, identity, hourMs)
    const again = await pki.authority.signRequest(second, identity, hourMs)
    expect((await installCertificate(identityDir, issued.certificatePem)).serial).to.equal(issued.serial)
    expect((await installCertificate(identityDir, issued.certificatePem)).serial).to.equal(issued.serial)
    expect(await codeOf(installCertificate(identityDir, again.certificatePem))).to.equal('bad_certificate')
    expect(getIdentity(identityDir).serial).to.equal(issued.serial)
  })

  it('installs a certificate only from its gateway’s CA, for this host and for the requested key', async () => {
    const { identityDir, serial } = await pki.enrol('h-strict')
    const csr = await createSigningRequest(identityDir)
    const identity = { role: 'agent', hostId: 'h-strict' } as const
    const foreign = await createTestPki()
    const bad = [
      (await pki.authority.issue(identity, hourMs)).certificatePem,
      (await pki.authority.signRequest(csr, { role: 'agent', hostId: 'h-else' }, hourMs)).certificatePem,
      (await pki.authority.signRequest(csr, { role: 'gateway' }, hourMs)).certificatePem,
      (await foreign.authority.signRequest(csr, identity, hourMs)).certificatePem,
      (await pki.authority.signRequest(csr, identity, -1000)).certificatePem,
      'junk',
    ]
    await foreign.remove()
    for (const pem of bad) expect(await codeOf(installCertificate(identityDir, pem))).to.equal('bad_certificate')
    expect(getIdentity(identityDir).serial).to.equal(serial)
  })
})
