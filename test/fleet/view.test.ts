import { expect } from 'chai'
import { hostname } from 'node:os'
import { powerOrder } from '../support/host/agent-calls.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { freePort } from '../support/ports.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { codeOf, creationRequest, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

describe('the gateway’s view of its hosts', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let test: TestFleet
  beforeEach(async () => (test = await startTestFleet({}, { redis })))
  afterEach(() => test.close())

  it('shows all guests of a joining host, and shows later creations and deletions immediately', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 1000 })
    const { view } = test.fleet
    const { faults } = agent.host
    let goOn = (): void => undefined
    const hold = (): Promise<void> => new Promise((done) => (goOn = done))
    ;[faults.clone, faults.remove] = [hold, hold]
    expect([...view.guests()]).to.have.length(1000)
    expect(view.findGuest('SIM-7')?.guest.id).to.equal(7)
    expect(view.findGuest('7')?.guest.name).to.equal('sim-7')
    expect(view.findHost(hostId)?.description).to.include({ hostId, hostname: hostname() })
    const { response } = await test.fleet.createGuest(creationRequest('web'))
    expect(response.sshPassword).to.match(/^[A-Za-z0-9]{12,}$/)
    expect(response.guest?.id).to.equal(1001)
    expect(view.findGuest('web')?.guest.status).to.equal('creating')
    expect(view.operations()[0]?.operation.action).to.equal('create')
    await waitFor(() => {
      goOn()
      return view.findGuest('web')?.guest.status === 'running'
    })
    const uuid = response.guest!.uuid
    const deleted = await test.fleet.agent(hostId).operations.submitOperation(powerOrder('delete', uuid))
    await test.fleet.reached(hostId, deleted.revision)
    await waitFor(() => view.findGuest(uuid)?.guest.status === 'deleting')
    await waitFor(() => {
      goOn()
      return view.findGuest(uuid) === undefined
    })
    delete faults.clone
    // The name can be used again as soon as the deletion has reached the gateway.
    await waitFor(async () => (await codeOf(test.fleet.createGuest(creationRequest('WEB')))) === 'ok')
  })

  it('spreads new guests over two hosts, and shows the guests of an offline host as unknown', async () => {
    const a = await test.addHost('a')
    const b = await test.addHost('b')
    const made = await Promise.all(
      Array.from({ length: 20 }, (_, n) => test.fleet.createGuest(creationRequest(`g${n}`))),
    )
    const perHost = [a, b].map(({ hostId }) => made.filter((one) => one.hostId === hostId).length)
    expect(perHost).to.deep.equal([10, 10])
    expect(new Set(made.map(({ response }) => response.guest!.id)).size).to.equal(20)
    expect(new Set(made.map(({ response }) => response.guest!.uuid)).size).to.equal(20)

    const version = test.fleet.view.guestsVersion
    await a.agent.stop()
    await waitFor(() => test.fleet.view.findHost(a.hostId)?.state === 'offline', {
      timeoutMs: deadlineOf(5000),
      what: 'it is offline, 5 s are promised',
    })
    expect(test.fleet.view.guestsVersion).to.be.greaterThan(version)
    const online = [...test.fleet.view.guests()].map((guest) => [guest.hostId, guest.online])
    expect(online).to.have.length(20)
    for (const [hostId, isOnline] of online) expect(isOnline).to.equal(hostId === b.hostId)
    expect(await codeOf(test.fleet.createGuest(creationRequest('onb')))).to.equal('ok')
    expect(await codeOf(test.fleet.createGuest(creationRequest('ona', { hostId: a.hostId })))).to.equal('host_offline')
    expect(await codeOf(test.fleet.createGuest(creationRequest('g1')))).to.equal('name_conflict')

    const away = a.agent.guests()[0]!.uuid
    a.agent.update(away, { status: 'error' })
    await a.agent.resume()
    await waitFor(() => test.fleet.view.findHost(a.hostId)?.state === 'online')
    expect(test.fleet.view.findGuest(away)?.guest.status).to.equal('error')
    expect([...test.fleet.view.guests()].every((guest) => guest.online)).to.equal(true)
  })

  it('does not show guests as unknown if the connection is lost only briefly', async () => {
    const patient = await startTestFleet({ agents: { reconnect_ms: 60_000 } }, { redis })
    const { hostId, agent } = await patient.addHost('one', { guests: 3 })
    const isOnline = (): boolean => patient.fleet.view.findHost(hostId)?.state === 'online'
    let wasOffline = false
    const watching = setInterval(() => (wasOffline ||= !isOnline()), 5)
    await agent.restart()
    const uuid = agent.guests()[0]!.uuid
    const answers = async (): Promise<boolean> =>
      (await codeOf(Promise.resolve().then(() => patient.fleet.agent(hostId).guests.getGuestUsage({ uuid })))) === 'ok'
    await waitFor(answers, { what: 'calls to work again' })
    clearInterval(watching)
    expect(wasOffline).to.equal(false)
    await patient.close()
  })

  it('continues from its last revision after a lost connection, or starts over if the journal is new', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 5 })
    const first = agent.guests().map(({ uuid }) => uuid)
    await agent.stop()
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'offline')
    agent.removeGuest(first[0]!)
    agent.update(first[1]!, { statusReason: 'changed while away' })
    await agent.resume()
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online')
    expect(test.fleet.view.findGuest(first[0]!)).to.equal(undefined)
    expect(test.fleet.view.findGuest(first[1]!)?.guest.statusReason).to.equal('changed while away')
    await agent.stop()
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'offline')
    const other = await LabAgent.start({ identityDir: `${test.directory}/agent-one` })
    other.seed(2, 100)
    await other.restart(agent.address)
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online')
    expect([...test.fleet.view.guests()].map(({ guest }) => guest.name)).to.have.members(['sim-100', 'sim-101'])
    await other.destroy()
  })

  it('shows guests of an offline host as unknown, not as deleted, after the gateway restarted', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 300 })
    agent.removeGuest(agent.guests()[0]!.uuid)
    agent.update(agent.guests()[0]!.uuid, { statusReason: 'last known' })
    await test.fleet.reached(hostId, agent.revision)
    await agent.stop()
    await test.fleet.close()
    const next = await test.startGateway()
    const guests = [...next.view.guests()]
    expect(guests).to.have.length(299)
    expect(guests.some((guest) => guest.online)).to.equal(false)
    expect(next.view.findGuest('sim-2')?.guest.statusReason).to.equal('last known')
    agent.removeGuest(agent.guests()[0]!.uuid)
    await agent.resume()
    await waitFor(() => next.view.findHost(hostId)?.state === 'online')
    expect([...next.view.guests()]).to.have.length(298)
    await next.hosts.removeHost(hostId, { force: true })
    expect([...(await test.startGateway()).view.guests()]).to.deep.equal([])
  })

  it('shows a new guest after the gateway restarted, even if its host is offline', async () => {
    const { agent } = await test.addHost('one')
    await test.fleet.createGuest(creationRequest('just-now'))
    await agent.stop()
    const next = await test.startGateway()
    expect(next.view.findGuest('just-now')).to.include({ online: false })
  })

  it('shows a new guest even if its host went offline before the host reported the guest', async () => {
    const tellNothing = ({ domain }: LabAgent): void => {
      domain.changes.onChange = () => () => undefined
    }
    await test.close()
    // The timeout is low, because the creation waits for the host's report, which never arrives in this test.
    test = await startTestFleet({ agents: { call_timeout_ms: 2000 } }, { redis })
    const { agent } = await test.addHost('one', { prepare: tellNothing })
    const { response } = await test.fleet.createGuest(creationRequest('untold'))
    await agent.stop()
    expect(test.fleet.view.findGuest('untold')?.guest.uuid).to.equal(response.guest!.uuid)
    expect(test.fleet.view.findOperation(response.operation!.id)).to.not.equal(undefined)
    await test.fleet.close()
    const next = await test.startGateway()
    expect(next.view.findGuest('untold')).to.include({ online: false })
  })

  it('is complete as soon as a new gateway is ready', async () => {
    const { hostId } = await test.addHost('one', { guests: 1000 })
    const other = await test.startGateway(undefined, 60_000)
    expect(other.view.findHost(hostId)?.state).to.equal('online')
    expect([...other.view.guests()].filter(({ online }) => online)).to.have.length(1000)
  })

  it('uses a host’s new address immediately, and places no guests on a draining host', async () => {
    const { hostId, agent } = await test.addHost('one')
    await agent.restart(`127.0.0.1:${await freePort()}`)
    await test.fleet.hosts.updateHost(hostId, { address: agent.address })
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online', { timeoutMs: deadlineOf(1900) })
    await test.fleet.hosts.updateHost(hostId, { draining: true })
    expect(await codeOf(test.fleet.createGuest(creationRequest('web')))).to.equal('invalid_state')
    for (const address of ['', 'x', 'x:0', 'x:70000', 'unix:/run/x.sock', 'http://x:1', 'x y:1', '[::1]'])
      expect(await codeOf(test.fleet.hosts.updateHost(hostId, { address })), address).to.equal('invalid_field')
  })
})
