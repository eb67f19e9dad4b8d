import { expect } from 'chai'
import { GuestStatus } from '../../proto/gen/berth/agent/v1/guest.js'
import { powerOrder } from '../support/agent-calls.js'
import { SimulatedHost } from '../support/simulated-host.js'
import { codeOf, creationRequest, impatient, startTestFleet, type TestFleet } from '../support/test-fleet.js'
import { waitFor } from '../support/wait.js'

describe('what the gateway shows of its hosts', function () {
  this.timeout(30_000)
  let test: TestFleet
  beforeEach(async () => (test = await startTestFleet(impatient)))
  afterEach(() => test.close())

  it('shows everything of a host that joins, and its own writes at once', async () => {
    const { hostId } = await test.addHost('one', { guests: 1000, operationMs: 1000 })
    const { view } = test.fleet
    expect([...view.guests()]).to.have.length(1000)
    expect(view.findGuest('SIM-7')?.guest.id).to.equal(7)
    expect(view.findGuest('7')?.guest.name).to.equal('sim-7')
    expect(view.findHost(hostId)?.description?.hostname).to.equal(`sim-${hostId}`)
    const { response } = await test.fleet.createGuest(creationRequest('web'))
    expect(response.sshPassword).to.equal('Simulated1')
    expect(response.guest?.id).to.equal(1001)
    expect(view.findGuest('web')?.guest.status).to.equal(GuestStatus.GUEST_STATUS_CREATING)
    expect(view.operations()[0]?.operation.action).to.equal('create')
    await waitFor(() => view.findGuest('web')?.guest.status === GuestStatus.GUEST_STATUS_RUNNING)
    const uuid = response.guest!.uuid
    const deleted = await test.fleet.agent(hostId).operations.submitOperation(powerOrder('delete', uuid))
    await test.fleet.reached(hostId, deleted.revision)
    expect(view.findGuest(uuid)?.guest.status).to.equal(GuestStatus.GUEST_STATUS_DELETING)
    await waitFor(() => view.findGuest(uuid) === undefined)
    // The name is free again.
    await waitFor(async () => (await codeOf(test.fleet.createGuest(creationRequest('WEB')))) === 'ok')
  })

  it('two hosts: spread, unique; one away shows unknown, the other works on, back is right again', async () => {
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
    const begun = Date.now()
    a.agent.stop()
    await waitFor(() => test.fleet.view.findHost(a.hostId)?.state === 'offline')
    expect(Date.now() - begun).to.be.lessThan(5000)
    expect(test.fleet.view.guestsVersion).to.be.greaterThan(version)
    const online = [...test.fleet.view.guests()].map((guest) => [guest.hostId, guest.online])
    expect(online).to.have.length(20)
    for (const [hostId, isOnline] of online) expect(isOnline).to.equal(hostId === b.hostId)
    expect(await codeOf(test.fleet.createGuest(creationRequest('onb')))).to.equal('ok')
    expect(await codeOf(test.fleet.createGuest(creationRequest('ona', { hostId: a.hostId })))).to.equal(
      'host_offline',
    )
    expect(await codeOf(test.fleet.createGuest(creationRequest('g1')))).to.equal('name_conflict')

    const away = [...a.agent.host.guests.keys()][0]!
    a.agent.host.setGuest({ uuid: away, status: GuestStatus.GUEST_STATUS_ERROR })
    const back = await a.agent.restart()
    await waitFor(() => test.fleet.view.findHost(a.hostId)?.state === 'online')
    expect(test.fleet.view.findGuest(away)?.guest.status).to.equal(GuestStatus.GUEST_STATUS_ERROR)
    expect([...test.fleet.view.guests()].every((guest) => guest.online)).to.equal(true)
    back.stop()
  })

  it('a short break is bridged: guests never show as unknown', async () => {
    const patient = await startTestFleet({ agents: { ...impatient.agents, reconnect_ms: 10_000 } })
    const { hostId, agent } = await patient.addHost('one', { guests: 3 })
    const isOnline = (): boolean => patient.fleet.view.findHost(hostId)?.state === 'online'
    let wasOffline = false
    const watching = setInterval(() => (wasOffline ||= !isOnline()), 5)
    const again = await agent.restart()
    const uuid = [...again.host.guests.keys()][0]!
    const answers = async (): Promise<boolean> =>
      (await codeOf(
        Promise.resolve().then(() => patient.fleet.agent(hostId).guests.getGuestUsage({ uuid })),
      )) === 'ok'
    await waitFor(answers, { what: 'calls to work again' })
    clearInterval(watching)
    expect(wasOffline).to.equal(false)
    again.stop()
    await patient.close()
  })

  it('resumes from its revision, and starts over with another journal', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 5 })
    const first = [...agent.host.guests.keys()]
    agent.stop()
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'offline')
    agent.host.deleteGuest(first[0]!)
    agent.host.setGuest({ uuid: first[1]!, statusReason: 'changed while away' })
    let again = await agent.restart()
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online')
    expect(test.fleet.view.findGuest(first[0]!)).to.equal(undefined)
    expect(test.fleet.view.findGuest(first[1]!)?.guest.statusReason).to.equal('changed while away')
    again.stop()
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'offline')
    const other = new SimulatedHost(hostId)
    other.seed(2, 100)
    const { SimulatedAgent: Agent } = await import('../support/simulated-agent.js')
    again = await Agent.start({
      ...{ identityDir: `${test.directory}/agent-one`, host: other, listen: agent.address },
    })
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online')
    expect([...test.fleet.view.guests()].map(({ guest }) => guest.name)).to.have.members([
      'sim-100',
      'sim-101',
    ])
    again.stop()
  })

  it('a gateway that starts while a host is away shows its guests as unknown, never as gone', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 300 })
    agent.host.deleteGuest([...agent.host.guests.keys()][0]!)
    agent.host.setGuest({ uuid: [...agent.host.guests.keys()][0]!, statusReason: 'last known' })
    await test.fleet.reached(hostId, agent.host.changes.revision)
    agent.stop()
    await test.fleet.close()
    const next = await test.startGateway()
    const guests = [...next.view.guests()]
    expect(guests).to.have.length(299)
    expect(guests.some((guest) => guest.online)).to.equal(false)
    expect(next.view.findGuest('sim-2')?.guest.statusReason).to.equal('last known')
    agent.host.deleteGuest([...agent.host.guests.keys()][0]!)
    const back = await agent.restart()
    await waitFor(() => next.view.findHost(hostId)?.state === 'online')
    expect([...next.view.guests()]).to.have.length(298)
    back.stop()
    await next.hosts.removeHost(hostId, { force: true })
    expect([...(await test.startGateway()).view.guests()]).to.deep.equal([])
  })

  it('a guest that was just created is known to the next gateway, though its host and this one are gone', async () => {
    const { agent } = await test.addHost('one')
    await test.fleet.createGuest(creationRequest('just-now'))
    agent.stop()
    const next = await test.startGateway()
    expect(next.view.findGuest('just-now')).to.include({ online: false })
  })

  it('a guest whose host went away before its watch told of it is shown, and known to the next gateway', async () => {
    const tellNothing = (host: SimulatedHost): void => {
      host.changes.onChange = () => () => undefined
    }
    const { agent } = await test.addHost('one', { prepare: tellNothing })
    const { response } = await test.fleet.createGuest(creationRequest('untold'))
    agent.stop()
    expect(test.fleet.view.findGuest('untold')?.guest.uuid).to.equal(response.guest!.uuid)
    expect(test.fleet.view.findOperation(response.operation!.id)).to.not.equal(undefined)
    await test.fleet.close()
    const next = await test.startGateway()
    expect(next.view.findGuest('untold')).to.include({ online: false })
  })

  it('a start resolves with the fleet as it is', async () => {
    const { hostId } = await test.addHost('one', { guests: 1000 })
    const other = await test.startGateway()
    expect(other.view.findHost(hostId)?.state).to.equal('online')
    expect([...other.view.guests()].filter(({ online }) => online)).to.have.length(1000)
  })

  it('an address that changes is dialled at once; a draining host gets no new guests', async () => {
    const { hostId, agent } = await test.addHost('one')
    const moved = await agent.restart({ listen: '127.0.0.1:0' })
    await test.fleet.hosts.updateHost(hostId, { address: moved.address })
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online', { timeoutMs: 1900 })
    await test.fleet.hosts.updateHost(hostId, { draining: true })
    expect(await codeOf(test.fleet.createGuest(creationRequest('web')))).to.equal('invalid_state')
    for (const address of ['', 'x', 'x:0', 'x:70000', 'unix:/run/x.sock', 'http://x:1', 'x y:1', '[::1]'])
      expect(await codeOf(test.fleet.hosts.updateHost(hostId, { address })), address).to.equal(
        'invalid_field',
      )
    moved.stop()
  })
})
