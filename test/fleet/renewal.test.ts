import { expect } from 'chai'
import { getIdentity } from '../../agent/enrollment/identity.js'
import { installCertificate, createSigningRequest } from '../../agent/enrollment/renewal.js'
import { BerthError } from '../../shared/errors.js'
import { createTestPki, hourMs, type TestPki } from '../support/pki.js'
import { startTestFleet, type TestFleet } from '../support/test-fleet.js'

describe('renewal of certificates', function () {
  this.timeout(120_000)
  let test: TestFleet | undefined
  afterEach(async () => {
    await test?.close()
    test = undefined
  })

  it('lifetimes of seconds: calls and the view go on through several of them', async () => {
    const lifetimeMs = 6000
    test = await startTestFleet({ certificates: { leaf_hours: lifetimeMs / hourMs } })
    const { view } = test.fleet
    const { hostId, agent } = await test.addHost('one', { guests: 10 })
    const uuid = agent.guests()[0]!.uuid
    const serials = new Set<string>()
    let wasAway = 0
    const failures: string[] = []
    const until = Date.now() + 4 * lifetimeMs
    let calls = 0
    while (Date.now() < until) {
      serials.add(agent.tls.identity().serial)
      if (view.findHost(hostId)?.state !== 'online') wasAway++
      await test.fleet
        .agent(hostId)
        .guests.getGuestUsage({ uuid })
        .then(
          () => calls++,
          (error: BerthError) => failures.push(error.message),
        )
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    agent.update(uuid, { statusReason: 'seen' })
    await test.fleet.reached(hostId, agent.revision)
    expect(view.findGuest(uuid)?.guest.statusReason).to.equal('seen')
    expect(failures).to.deep.equal([])
    expect(calls).to.be.greaterThan(200)
    expect(wasAway).to.equal(0)
    expect(serials.size).to.be.greaterThan(3)
    expect(view.findHost(hostId)!.certificateNotAfterMs).to.be.greaterThan(Date.now())
  })

  describe('on the agent', () => {
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

    it('each step can be repeated', async () => {
      const { identityDir } = await pki.enrol('h-repeat')
      const [first, second] = [
        await createSigningRequest(identityDir),
        await createSigningRequest(identityDir),
      ]
      const identity = { role: 'agent', hostId: 'h-repeat' } as const
      const issued = await pki.authority.signRequest(first, identity, hourMs)
      const again = await pki.authority.signRequest(second, identity, hourMs)
      expect((await installCertificate(identityDir, issued.certificatePem)).serial).to.equal(issued.serial)
      expect((await installCertificate(identityDir, issued.certificatePem)).serial).to.equal(issued.serial)
      expect(await codeOf(installCertificate(identityDir, again.certificatePem))).to.equal('bad_certificate')
      expect(getIdentity(identityDir).serial).to.equal(issued.serial)
    })

    it('only a certificate for the asked key, this host and from this authority is installed', async () => {
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
      for (const pem of bad)
        expect(await codeOf(installCertificate(identityDir, pem))).to.equal('bad_certificate')
      expect(getIdentity(identityDir).serial).to.equal(serial)
    })
  })
})
