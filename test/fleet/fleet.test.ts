import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { GuestSpec, GuestStatus, Virtualization } from '../../proto/gen/berth/agent/v1/guest.js'
import { GuestRegistry } from '../../gateway/fleet/guest-registry.js'
import { BerthError, conflict } from '../../shared/errors.js'
import { rogueWatch, startAgentProcess } from '../support/rogue-agent.js'
import { startTestFleet, type TestFleet } from '../support/test-fleet.js'
import { waitFor } from '../support/wait.js'

const spec = GuestSpec.fromPartial({
  virtualization: Virtualization.VIRTUALIZATION_LXC,
  templateId: 'debian-12',
  limits: { vcpuMilli: 1000, ramMb: 512, diskGb: 10 },
  assignNat: true,
  start: true,
})

const request = (name: string, more: object = {}) => ({
  ...{ operationId: randomUUID(), name, spec, requestedBy: 'api:test' },
  ...more,
})

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'ok'
  } catch (error) {
    return error instanceof BerthError ? error.code : String(error)
  }
}

describe('fleet', function () {
  this.timeout(30_000)
  let test: TestFleet
  beforeEach(async () => {
    test = await startTestFleet({ agents: { silence_ms: 3000, call_timeout_ms: 2000 } })
  })
  afterEach(() => test.close())

  it('shows everything of a host that joins, and its own writes at once', async () => {
    const { hostId } = await test.addHost('one', { guests: 1000, operationMs: 50 })
    const { view } = test.fleet
    expect([...view.guests()]).to.have.length(1000)
    expect(view.findGuest('SIM-7')?.guest.id).to.equal(7)
    expect(view.findGuest('7')?.guest.name).to.equal('sim-7')
    expect(view.findHost(hostId)?.description?.hostname).to.equal(`sim-${hostId}`)
    const { response } = await test.fleet.createGuest(request('web'))
    expect(response.sshPassword).to.equal('Simulated1')
    expect(response.guest?.id).to.equal(1001)
    expect(view.findGuest('web')?.guest.status).to.equal(GuestStatus.GUEST_STATUS_CREATING)
    expect(view.operations()[0]?.operation.action).to.equal('create')
    await waitFor(() => view.findGuest('web')?.guest.status === GuestStatus.GUEST_STATUS_RUNNING)
    const uuid = response.guest!.uuid
    const deleted = await test.fleet
      .agent(hostId)
      .deleteGuest({ operationId: randomUUID(), uuid, requestedBy: 'api:test' })
    await test.fleet.reached(hostId, deleted.revision)
    expect(view.findGuest(uuid)?.guest.status).to.equal(GuestStatus.GUEST_STATUS_DELETING)
    await waitFor(() => view.findGuest(uuid) === undefined)
    // The name is free again.
    await waitFor(async () => (await codeOf(test.fleet.createGuest(request('WEB')))) === 'ok')
  })

  it('two hosts: spread, unique; one away shows unknown, the other works on, back is right again', async () => {
    const a = await test.addHost('a')
    const b = await test.addHost('b')
    const made = await Promise.all(
      Array.from({ length: 20 }, (_, n) => test.fleet.createGuest(request(`g${n}`))),
    )
    const perHost = [a, b].map(({ hostId }) => made.filter((one) => one.hostId === hostId).length)
    expect(perHost).to.deep.equal([10, 10])
    expect(new Set(made.map(({ response }) => response.guest!.id)).size).to.equal(20)
    expect(new Set(made.map(({ response }) => response.guest!.uuid)).size).to.equal(20)

    const version = test.fleet.view.guestsVersion
    const begun = Date.now()
    a.agent.stop()
    await waitFor(() => test.fleet.view.findHost(a.hostId)?.state === 'offline')
    expect(Date.now() - begun).to.be.lessThan(2000)
    expect(test.fleet.view.guestsVersion).to.be.greaterThan(version)
    const online = [...test.fleet.view.guests()].map((guest) => [guest.hostId, guest.online])
    expect(online).to.have.length(20)
    for (const [hostId, isOnline] of online) expect(isOnline).to.equal(hostId === b.hostId)
    expect(await codeOf(test.fleet.createGuest(request('onb')))).to.equal('ok')
    expect(await codeOf(test.fleet.createGuest(request('ona', { hostId: a.hostId })))).to.equal(
      'host_offline',
    )
    expect(await codeOf(test.fleet.createGuest(request('g1')))).to.equal('name_conflict')

    const away = [...a.agent.host.guests.keys()][0]!
    a.agent.host.setGuest({ uuid: away, status: GuestStatus.GUEST_STATUS_ERROR })
    const back = await a.agent.restart()
    await waitFor(() => test.fleet.view.findHost(a.hostId)?.state === 'online')
    expect(test.fleet.view.findGuest(away)?.guest.status).to.equal(GuestStatus.GUEST_STATUS_ERROR)
    expect([...test.fleet.view.guests()].every((guest) => guest.online)).to.equal(true)
    back.stop()
  })

  it('a short break is bridged: guests never show as unknown', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 3 })
    let wasOffline = false
    const watching = setInterval(
      () => (wasOffline ||= test.fleet.view.findHost(hostId)?.state !== 'online'),
      5,
    )
    const again = await agent.restart()
    await waitFor(
      () => codeOf(test.fleet.agent(hostId).getGuestUsage('x')).then((code) => code === 'not_found'),
      {
        what: 'calls work again',
      },
    ).catch(() => undefined)
    await waitFor(async () => {
      try {
        await test.fleet.agent(hostId).getGuestUsage([...again.host.guests.keys()][0]!)
        return true
      } catch {
        return false
      }
    })
    clearInterval(watching)
    expect(wasOffline).to.equal(false)
    again.stop()
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
    const { SimulatedHost } = await import('../support/simulated-host.js')
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

  it('a deletion that ended while no gateway watched frees the name at once', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 3 })
    const { response } = await test.fleet.createGuest(request('web'))
    const shown = test.store.key('shown-guests', hostId)
    await waitFor(async () => (await test.store.client.hLen(shown)) === 4, { what: 'last states kept' })
    await test.fleet.close()
    agent.host.deleteGuest(response.guest!.uuid)
    const next = await test.startGateway()
    await waitFor(() => next.view.findHost(hostId)?.state === 'online')
    expect(next.view.findGuest('web')).to.equal(undefined)
    const again = await next.createGuest(request('web'))
    expect(again.response.guest?.uuid).not.to.equal(response.guest!.uuid)
    expect(await test.store.client.hLen(test.store.key('guests'))).to.equal(4)
  })

  it('a reservation its host has not been seen with outlives a full sync', async () => {
    const { hostId, agent } = await test.addHost('one')
    const registry = new GuestRegistry(test.store)
    await registry.reserve({ name: 'coming', hostId, operationId: randomUUID() }, () => false)
    await test.fleet.close()
    const next = await test.startGateway()
    await waitFor(() => next.view.findHost(hostId)?.state === 'online')
    expect(await codeOf(next.createGuest(request('coming')))).to.equal('name_conflict')
    expect(agent.host.guests.size).to.equal(0)
  })

  it('the same operation again gives the same guest; a refused creation frees its name', async () => {
    let refuse = true
    let seen = 0
    const { agent } = await test.addHost('one', {
      onCreate: ({ name }) => {
        seen++
        if (name === 'bad' && refuse) throw conflict('port_conflict', 'port 80 is taken')
      },
    })
    const same = request('web')
    const [first, second] = [await test.fleet.createGuest(same), await test.fleet.createGuest(same)]
    expect(second).to.deep.equal(first)
    expect(agent.host.guests.size).to.equal(1)
    expect(seen).to.equal(2)
    expect(await codeOf(test.fleet.createGuest(request('bad')))).to.equal('port_conflict')
    refuse = false
    expect(await codeOf(test.fleet.createGuest(request('bad')))).to.equal('ok')
  })

  it('50 creations of one name at once: exactly one succeeds', async () => {
    await test.addHost('a')
    await test.addHost('b')
    const names = Array.from({ length: 50 }, (_, n) => (n % 2 ? 'Same' : 'same'))
    const codes = await Promise.all(names.map((name) => codeOf(test.fleet.createGuest(request(name)))))
    expect(codes.filter((code) => code === 'ok')).to.have.length(1)
    expect(codes.filter((code) => code === 'name_conflict')).to.have.length(49)
    expect([...test.fleet.view.guests()]).to.have.length(1)
  })

  it('two gateways on one store: names and ids stay unique, hosts are noticed', async () => {
    await test.addHost('a')
    const other = await test.startGateway()
    await waitFor(() => other.view.hosts()[0]?.state === 'online')
    const codes = await Promise.all(
      Array.from({ length: 20 }, (_, n) => codeOf((n % 2 ? other : test.fleet).createGuest(request('same')))),
    )
    expect(codes.filter((code) => code === 'ok')).to.have.length(1)
    const made = await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 ? other : test.fleet).createGuest(request(`n${n}`))),
    )
    expect(new Set(made.map(({ response }) => response.guest!.id)).size).to.equal(20)
    await test.addHost('b')
    await waitFor(() => other.view.hosts().filter(({ state }) => state === 'online').length === 2)
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
    await test.fleet.createGuest(request('just-now'))
    agent.stop()
    const next = await test.startGateway()
    expect(next.view.findGuest('just-now')).to.include({ online: false })
  })

  it('a start resolves with the fleet as it is', async () => {
    const { hostId } = await test.addHost('one', { guests: 1000 })
    const begun = Date.now()
    const other = await test.startGateway()
    expect(Date.now() - begun).to.be.lessThan(2000)
    expect(other.view.findHost(hostId)?.state).to.equal('online')
    expect([...other.view.guests()].filter(({ online }) => online)).to.have.length(1000)
  })

  it('an address that changes is dialled at once; a draining host gets no new guests', async () => {
    const { hostId, agent } = await test.addHost('one')
    const moved = await agent.restart({ listen: '127.0.0.1:0' })
    await test.fleet.hosts.updateHost(hostId, { address: moved.address })
    await waitFor(() => test.fleet.view.findHost(hostId)?.state === 'online', { timeoutMs: 1000 })
    await test.fleet.hosts.updateHost(hostId, { draining: true })
    expect(await codeOf(test.fleet.createGuest(request('web')))).to.equal('invalid_state')
    for (const address of ['', 'x', 'x:0', 'x:70000', 'unix:/run/x.sock', 'http://x:1', 'x y:1', '[::1]'])
      expect(await codeOf(test.fleet.hosts.updateHost(hostId, { address })), address).to.equal(
        'invalid_field',
      )
    moved.stop()
  })

  it('the store away: the view and calls go on, creations say so', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 2 })
    await test.redis.process.stop()
    await waitFor(() => !test.store.ready())
    expect(await codeOf(test.fleet.createGuest(request('web')))).to.equal('store_unavailable')
    const uuid = [...agent.host.guests.keys()][0]!
    expect(await codeOf(test.fleet.agent(hostId).getGuestUsage(uuid))).to.equal('ok')
    agent.host.deleteGuest(uuid)
    await test.fleet.reached(hostId, agent.host.changes.revision)
    expect([...test.fleet.view.guests()]).to.have.length(1)
  })

  for (const loss of ['the whole store', 'the key of hosts'] as const)
    it(`${loss} lost under a running gateway: hosts, guests, ids and names come back`, async () => {
      const one = await test.addHost('one', { guests: 3, firstId: 500 })
      const two = await test.addHost('two', { guests: 1, firstId: 900 })
      two.agent.stop()
      await waitFor(() => test.fleet.view.findHost(two.hostId)?.state === 'offline')
      if (loss === 'the whole store') await test.redis.wipe()
      else await test.store.client.del(test.store.key('hosts'))
      const { client } = test.store
      // At once, before anything has come back: neither a name nor an id is given twice.
      expect(await codeOf(test.fleet.createGuest(request('SIM-500')))).to.equal('name_conflict')
      await waitFor(async () => (await client.hLen(test.store.key('hosts'))) === 2, {
        what: 'hosts are back',
      })
      expect(test.fleet.view.hosts().map(({ name, state }) => [name, state])).to.have.deep.members([
        ['one', 'online'],
        ['two', 'offline'],
      ])
      expect([...test.fleet.view.guests()]).to.have.length(4)
      await waitFor(async () => (await client.hLen(test.store.key('guests'))) === 4, {
        what: 'guests are back',
      })
      expect((await test.fleet.createGuest(request('next'))).response.guest?.id).to.equal(901)
      // Who starts now knows of all of it, the host that is away included.
      await waitFor(async () => (await client.hLen(test.store.key('shown-guests', two.hostId))) === 1)
      const other = await test.startGateway()
      await waitFor(() => other.view.findHost(one.hostId)?.state === 'online')
      expect(other.view.findGuest('sim-900')?.hostId).to.equal(two.hostId)
      expect(other.view.findHost(one.hostId)?.warnings).to.deep.equal([])
      // What is removed stays removed, at both.
      await test.fleet.hosts.removeHost(two.hostId, { force: true })
      await waitFor(() => other.view.findHost(two.hostId) === undefined, { what: 'removal noticed' })
      await test.redis.wipe()
      await waitFor(
        async () => (await test.store.client.hKeys(test.store.key('hosts'))).join() === one.hostId,
      )
      expect(other.view.findHost(two.hostId)).to.equal(undefined)
    })

  it('a host the store knows only in an older version is written to it again', async () => {
    const { hostId } = await test.addHost('one')
    const key = test.store.key('hosts')
    const old = (await test.store.client.hGet(key, hostId)) ?? ''
    await test.fleet.hosts.updateHost(hostId, { draining: true })
    await test.store.client.hSet(key, hostId, old)
    await waitFor(async () => (await test.store.client.hGet(key, hostId))?.includes('"draining":true'))
    expect(test.fleet.view.findHost(hostId)?.draining).to.equal(true)
  })

  it('the guests of a new host bring their ids and names along', async () => {
    const { hostId } = await test.addHost('one', { guests: 1, firstId: 500 })
    expect((await test.fleet.createGuest(request('next'))).response.guest?.id).to.equal(501)
    expect(await codeOf(test.fleet.createGuest(request('SIM-500')))).to.equal('name_conflict')
    expect(await test.store.client.hLen(test.store.key('guests'))).to.equal(2)
    expect(test.fleet.view.findHost(hostId)?.warnings).to.deep.equal([])
  })

  it('of two hosts that claim a guest the first owner wins, the other is warned of', async () => {
    const a = await test.addHost('a', { guests: 3 })
    const b = await test.addHost('b', { guests: 2, firstId: 3 })
    const shown = [...test.fleet.view.guests()].map(({ hostId, guest }) => [hostId, guest.name])
    expect(shown).to.have.deep.members([
      [a.hostId, 'sim-1'],
      [a.hostId, 'sim-2'],
      [a.hostId, 'sim-3'],
      [b.hostId, 'sim-4'],
    ])
    expect(test.fleet.view.findHost(b.hostId)?.warnings.join()).to.contain('sim-3')
    // A gateway that meets them in the other order decides the same: the store knows the owner.
    a.agent.stop()
    const other = await test.startGateway()
    await waitFor(() => other.view.findHost(b.hostId)?.state === 'online')
    // Its last state may be known from before.
    expect(other.view.findGuest('sim-3')?.hostId).not.to.equal(b.hostId)
    // Nor can it take one over by a change.
    const stolen = [...a.agent.host.guests.keys()][0]!
    b.agent.host.setGuest({ ...a.agent.host.guests.get(stolen)!, statusReason: 'stolen' })
    await waitFor(() => test.fleet.view.findHost(b.hostId)?.warnings.join().includes('sim-1'))
    expect(test.fleet.view.findGuest('sim-1')?.hostId).to.equal(a.hostId)
    expect(test.fleet.view.findGuest('sim-1')?.guest.statusReason).to.equal('')
  })

  it('a removed host is gone with its guests, and refused from then on', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 2 })
    expect(await codeOf(test.fleet.hosts.removeHost(hostId, { force: false }))).to.equal('invalid_state')
    await test.fleet.hosts.removeHost(hostId, { force: true })
    expect(test.fleet.view.hosts()).to.deep.equal([])
    expect([...test.fleet.view.guests()]).to.deep.equal([])
    expect(await codeOf(test.fleet.hosts.createJoinToken(hostId))).to.equal('not_found')
    expect(() => test.fleet.agent(hostId)).to.throw(BerthError)
    // Not even an agent that is asked by another record's name can speak for it.
    const { id } = await test.fleet.hosts.createHost({ name: 'two', address: agent.address })
    expect(test.fleet.view.findHost(id)?.state).to.equal('pending')
  })

  it('a stalled agent is noticed and hurts no other', async () => {
    const never = new Promise<void>(() => undefined)
    const stalled = await test.addHost('stalled', { onCreate: () => never })
    const good = await test.addHost('good')
    const begun = Date.now()
    const calls = Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        codeOf(test.fleet.createGuest(request(`s${n}`, { hostId: stalled.hostId }))),
      ),
    )
    expect(await codeOf(test.fleet.createGuest(request('fine', { hostId: good.hostId })))).to.equal('ok')
    expect(Date.now() - begun).to.be.lessThan(1500)
    expect(new Set(await calls)).to.deep.equal(new Set(['agent_timeout']))
  })

  it('an agent that speaks of another host, its guests or its operations changes nothing but its own warnings', async () => {
    const good = await test.addHost('good', { guests: 1 })
    const { response } = await test.fleet.createGuest(request('web'))
    const [guest] = good.agent.host.guests.values()
    const bad = await test.addHost('bad', {
      watch: rogueWatch([
        { $case: 'host', value: good.agent.host.description },
        { $case: 'guest', value: { ...guest!, statusReason: 'lie' } },
        { $case: 'guest', value: { ...guest!, name: '__proto__' } },
        { $case: 'guestRemoved', value: { uuid: guest!.uuid } },
        { $case: 'operation', value: { ...response.operation!, error: 'lie' } },
        { $case: 'operationRemoved', value: { id: response.operation!.id } },
        { $case: 'templateRemoved', value: { id: 'debian-12' } },
      ]),
    })
    const { view } = test.fleet
    expect(view.findGuest('sim-1')?.guest.statusReason).to.equal('')
    expect(view.findOperation(response.operation!.id)).to.include({ hostId: good.hostId })
    expect(view.findOperation(response.operation!.id)?.operation.error).to.equal('')
    expect([...view.templates()]).to.have.length(1)
    expect(view.findHost(bad.hostId)?.description).to.equal(undefined)
    expect(view.findHost(bad.hostId)?.warnings).not.to.deep.equal([])
    expect(view.findHost(good.hostId)?.warnings).to.deep.equal([])
  })

  it('an agent that stands still is away within the allowed silence, and back when it goes on', async () => {
    const { id } = await test.fleet.hosts.createHost({ name: 'still', address: '127.0.0.1:1' })
    const { token } = await test.fleet.hosts.createJoinToken(id)
    const identity = `${test.directory}/still`
    const agent = await startAgentProcess(['--join', token, '--identity', identity, '--guests', '5'])
    const isOnline = (): boolean => test.fleet.view.findHost(id)?.state === 'online'
    try {
      await test.fleet.hosts.updateHost(id, { address: agent.address })
      await waitFor(isOnline)
      agent.signal('SIGSTOP')
      // Silence of 3 s, a second of grace, and what a busy machine adds.
      await waitFor(() => !isOnline(), { timeoutMs: 5500, what: 'its silence noticed' })
      expect([...test.fleet.view.guests()].map(({ online }) => online)).to.deep.equal(Array(5).fill(false))
      agent.signal('SIGCONT')
      await waitFor(isOnline, { what: 'back' })
      expect([...test.fleet.view.guests()].map(({ online }) => online)).to.deep.equal(Array(5).fill(true))
    } finally {
      agent.stop()
    }
  })

  it('an agent that floods hurts only itself', async () => {
    const good = await test.addHost('good', { guests: 1 })
    const uuid = [...good.agent.host.guests.keys()][0]!
    const bad = await test.fleet.hosts.createHost({ name: 'bad', address: '127.0.0.1:1' })
    const { token } = await test.fleet.hosts.createJoinToken(bad.id)
    const flood = await startAgentProcess(['--join', token, '--identity', `${test.directory}/bad`, '--flood'])
    try {
      await test.fleet.hosts.updateHost(bad.id, { address: flood.address })
      await waitFor(() => test.fleet.view.findHost(bad.id)?.state === 'online')
      global.gc?.()
      const before = process.memoryUsage().heapUsed
      const took: number[] = []
      for (const until = Date.now() + 4000; Date.now() < until;) {
        const begun = performance.now()
        await test.fleet.agent(good.hostId).getGuestUsage(uuid)
        took.push(performance.now() - begun)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      expect(took.toSorted((a, b) => a - b)[took.length >> 1]).to.be.lessThan(300)
      global.gc?.()
      expect(process.memoryUsage().heapUsed - before).to.be.lessThan(150 * 1024 * 1024) // garbage included
      expect(test.fleet.view.operations().length).to.be.lessThan(6000)
      expect(test.fleet.view.findHost(good.hostId)?.state).to.equal('online')
    } finally {
      flood.stop()
    }
  })
})
