import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CaRotation } from '../../gateway/fleet/rotation/ca-rotation.js'
import type { RotationState } from '../../gateway/rotation/rotation.js'
import { ensureAuthority } from '../../gateway/pki/authority.js'
import { createCsrPem, createPrivateKeyPem } from '../../agent/enrollment/csr.js'
import { writeIdentity } from '../../agent/enrollment/identity.js'
import { HostStore } from '../../gateway/fleet/host-store.js'
import { hourMs } from '../support/gateway/pki.js'
import { joinGateway } from '../../agent/enrollment/join.js'
import { codeOf, creationRequest, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { waitFor } from '../support/wait.js'

describe('a rotation of the CA', function () {
  let test: TestFleet
  let rotation: CaRotation
  beforeEach(async () => {
    test = await startTestFleet()
    rotation = test.fleet.rotation
  })
  afterEach(() => test.close())

  const begin = () => rotation.begin({ id: randomUUID(), startedBy: 'test' })
  const reached = (...states: RotationState[]) =>
    waitFor(() => states.includes(rotation.current!.state), {
      what: () => `${states.join()}: ${JSON.stringify(rotation.current)}`,
    })
  const isOnline = (hostId: string) => test.fleet.view.findHost(hostId)?.state === 'online'
  const authoritiesOf = (agent: LabAgent) => agent.tls.identity().authorities.length

  it('replaces the CA without interrupting hosts and operations', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 3 })
    const former = test.fleet.rotation.authority.first.fingerprint
    const uuid = agent.guests()[0]!.uuid
    let wasAway = 0
    const failures: unknown[] = []
    let isOver = false
    const load = (async () => {
      while (!isOver) {
        if (!isOnline(hostId)) wasAway++
        await test.fleet
          .agent(hostId)
          .guests.getGuestUsage({ uuid })
          .catch((error: unknown) => failures.push(error))
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    })()
    const begun = await begin()
    expect(begun).to.include({ state: 'distributing', from: former })
    await reached('ready')
    expect(authoritiesOf(agent)).to.equal(2)
    await test.fleet.createGuest(creationRequest('during'))
    await rotation.finish([])
    await reached('ended')
    isOver = true
    await load
    expect(failures).to.deep.equal([])
    expect(wasAway).to.equal(0)
    expect(authoritiesOf(agent)).to.equal(1)
    await waitFor(() => rotation.authority.next === undefined, { what: 'the CA of the gateway' })
    expect((await ensureAuthority(join(test.directory, 'pki'), 1)).fingerprint).to.equal(begun.to)
    expect(
      readFileSync(join(test.directory, 'agent-one/identity.pem'), 'utf8').match(/BEGIN CERTIFICATE/g),
    ).to.have.length(2)
    await agent.restart()
    await waitFor(() => isOnline(hostId), { what: 'the host after a restart of its agent' })
  })

  it('finally makes the gateway refuse certificates of the old CA, even if they are not revoked', async () => {
    const { hostId, agent } = await test.addHost('one')
    const oldCa = await ensureAuthority(join(test.directory, 'pki'), 1)
    await begin()
    await rotation.finish([])
    await reached('ended')
    await waitFor(() => rotation.authority.next === undefined, { what: 'the CA of the gateway' })
    await agent.stop()
    const privateKeyPem = createPrivateKeyPem()
    const csr = await createCsrPem(privateKeyPem)
    const issued = await oldCa.signRequest(csr, { role: 'agent', hostId }, hourMs)
    const { caPem } = oldCa
    await writeIdentity(join(test.directory, 'agent-one'), {
      privateKeyPem,
      certificatePem: issued.certificatePem,
      caPem,
    })
    await new HostStore(test.store).update(hostId, (record) => ({
      ...record,
      serials: [issued.serial],
      issuer: oldCa.fingerprint,
    }))
    await agent.resume()
    await waitFor(() => !isOnline(hostId), { what: 'the host offline' })
    await new Promise((resolve) => setTimeout(resolve, 3000))
    expect(isOnline(hostId)).to.equal(false)
  })

  it('waits for a host that is offline', async () => {
    const one = await test.addHost('one')
    const two = await test.addHost('two')
    await two.agent.stop()
    await begin()
    await waitFor(() => authoritiesOf(one.agent) === 2, { what: 'the CAs of the host that is online' })
    await rotation.finish([])
    await new Promise((resolve) => setTimeout(resolve, 3000))
    expect(rotation.current!.state).to.equal('distributing')
    await two.agent.resume()
    await reached('ended')
    for (const { hostId, agent } of [one, two]) {
      expect(isOnline(hostId)).to.equal(true)
      expect(authoritiesOf(agent)).to.equal(1)
    }
  })

  it('can finish without an offline host, and this host must join again afterwards', async () => {
    await test.addHost('one')
    const two = await test.addHost('two')
    await two.agent.stop()
    await begin()
    await rotation.finish([two.hostId])
    await reached('ended')
    await two.agent.resume()
    await new Promise((resolve) => setTimeout(resolve, 3000))
    expect(isOnline(two.hostId)).to.equal(false)
    const { token } = await test.fleet.hosts.createJoinToken(two.hostId)
    await joinGateway(token, join(test.directory, 'agent-two'))
    await waitFor(() => isOnline(two.hostId), { what: 'the host that has joined again' })
  })

  it('replaces the certificates of two hosts only after a running move between these hosts has ended', async () => {
    const one = await test.addHost('one', { guests: 1 })
    const two = await test.addHost('two')
    const former = rotation.authority.first.caPem
    const released = new AbortController()
    let isPaused = false
    one.agent.observer = async ({ action, step, phase }) => {
      if (action !== 'migrate' || step !== 'copy' || phase !== 'after-run' || isPaused) return
      isPaused = true
      await once(released.signal, 'abort')
    }
    const operationId = randomUUID()
    const guest = test.fleet.view.findGuest(one.agent.guests()[0]!.uuid)!
    const choice = { toHostId: two.hostId, bandwidthMbps: 0, offline: false }
    await test.fleet.relocation.moves.begin({ operationId, guest, ...choice, requestedBy: 'test' })
    await waitFor(() => isPaused, { what: 'the first copy' })
    await begin()
    await reached('reissuing')
    await new Promise((resolve) => setTimeout(resolve, 3000))
    for (const { agent } of [one, two]) expect(agent.tls.identity().caPem).to.equal(former)
    released.abort()
    const statusOf = () => test.fleet.view.findOperation(operationId)?.operation
    await waitFor(() => statusOf()?.status === 'done', { what: () => `the move: ${JSON.stringify(statusOf())}` })
    await reached('ready')
    for (const { agent } of [one, two]) expect(agent.tls.identity().caPem).not.to.equal(former)
  })

  it('can be canceled while the new CA is distributed', async () => {
    const one = await test.addHost('one')
    const two = await test.addHost('two')
    await two.agent.stop()
    const { from } = await begin()
    await waitFor(() => authoritiesOf(one.agent) === 2, { what: 'two CAs' })
    await rotation.cancel()
    await waitFor(() => authoritiesOf(one.agent) === 1, { what: 'one CA' })
    expect(rotation.authority.first.fingerprint).to.equal(from)
    await two.agent.resume()
    await waitFor(() => isOnline(two.hostId), { what: 'the other host' })
  })

  it('lets hosts join with older tokens until it ends', async () => {
    await test.addHost('one')
    const early = await test.fleet.hosts.createHost({ name: 'early', address: '127.0.0.1:1' })
    const late = await test.fleet.hosts.createHost({ name: 'late', address: '127.0.0.1:2' })
    const { token } = await test.fleet.hosts.createJoinToken(early.id)
    const { token: lateToken } = await test.fleet.hosts.createJoinToken(late.id)
    await begin()
    await reached('ready')
    const identity = await joinGateway(token, join(test.directory, 'early'))
    expect(identity.authorities).to.have.length(2)
    await rotation.finish([early.id])
    await reached('ended')
    expect(await codeOf(joinGateway(lateToken, join(test.directory, 'late')))).to.equal('gateway_untrusted')
  })
})
