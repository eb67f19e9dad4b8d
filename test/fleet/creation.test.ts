import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import type { GuestCreation } from '../../gateway/fleet/creation-contract.js'
import type { HostRecord } from '../../gateway/fleet/host-record.js'
import { FleetState } from '../../gateway/fleet/view.js'
import type { WatchEvent } from '../../gateway/fleet/watch-kinds.js'
import { GuestOwners } from '../../gateway/fleet/placement/guest-owners.js'
import { GuestRegistry } from '../../gateway/fleet/placement/guest-registry.js'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { wireMapping } from '../support/host/agent-calls.js'
import { uuidOf } from '../support/memory/lab-agent.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import {
  codeOf,
  creationRequest,
  guestSpec as spec,
  startTestFleet,
  type TestFleet,
} from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

const hostRecord: HostRecord = {
  ...{ id: 'h-1', version: 1, name: 'one', address: '127.0.0.1:1', draining: false, createdAtMs: 0 },
  ...{ serials: [], certificateNotAfterMs: 0 },
}

/** Returns those parts of a creation's answer that stay the same while the guest is being created. */
function answerOf({ hostId, response: { guest, operation, sshPassword } }: GuestCreation) {
  const { uuid, id, portMappings } = guest!
  return { hostId, uuid, id, portMappings, operation: operation!.id, sshPassword }
}

describe('the names and ids of guests in a fleet', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let test: TestFleet
  beforeEach(async () => (test = await startTestFleet({}, { redis })))
  afterEach(() => test.close())

  it('are free again if the guest is deleted while no gateway runs', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 3 })
    const { response } = await test.fleet.createGuest(creationRequest('web'))
    const shown = test.store.key('shown-guests', hostId)
    await waitFor(async () => (await test.store.client.hLen(shown)) === 4, { what: 'last states stored' })
    await test.fleet.close()
    agent.removeGuest(response.guest!.uuid)
    const next = await test.startGateway()
    await waitFor(() => next.view.findHost(hostId)?.state === 'online')
    expect(next.view.findGuest('web')).to.equal(undefined)
    const again = await next.createGuest(creationRequest('web'))
    expect(again.response.guest?.uuid).not.to.equal(response.guest!.uuid)
    expect(await test.store.client.hLen(test.store.key('guests'))).to.equal(4)
  })

  it('are free for another guest of the same host that replaced the guest while no gateway was connected', async () => {
    const warnings: string[] = []
    const log = pino({ level: 'warn' }, { write: (line) => void warnings.push(line) })
    await test.close()
    test = await startTestFleet({}, { redis, log })
    const { hostId, agent } = await test.addHost('one', { guests: 1 })
    const shown = test.store.key('shown-guests', hostId)
    const replace = (uuid: string, id: number): string => {
      agent.removeGuest(uuid)
      return agent.addGuest({ id, name: 'sim-1' }).uuid
    }
    await agent.stop()
    const second = replace(uuidOf(1), 2)
    await agent.resume()
    await waitFor(() => test.fleet.view.findGuest('sim-1')?.guest.uuid === second, { what: 'the second guest' })
    await waitFor(async () => (await test.store.client.hExists(shown, second)) > 0, { what: 'its state stored' })
    await test.fleet.close()
    const third = replace(second, 3)
    const next = await test.startGateway()
    await waitFor(() => next.view.findGuest('sim-1')?.guest.uuid === third, { what: 'the third guest' })
    expect(warnings.filter((line) => line.includes('not shown'))).to.deep.equal([])
  })

  it('are free for another guest of the same host if the deletion and the new guest are stored together', async () => {
    const log = pino({ level: 'warn' }, { write: (line) => expect.fail(line) })
    const registry = new GuestRegistry(test.store)
    const view = new FleetState()
    const owners = new GuestOwners({ view, registry, moves: { list: async () => [] }, log })
    const host = view.setHost(hostRecord)
    const report = (event: WatchEvent): Promise<void> => {
      view.apply(host, event)
      return owners.guestChanged(host, event)
    }
    const add = (id: number, name: string): Promise<void> =>
      report({ $case: 'guest', value: Guest.fromPartial({ uuid: uuidOf(id), id, name }) })
    const remove = (id: number): Promise<void> =>
      report({ $case: 'removed', value: { kind: 'guest', key: uuidOf(id) } })
    await add(1, 'web')
    // The first change is being stored while the other two arrive.
    await Promise.all([add(2, 'other'), remove(1), add(3, 'web')])
    expect(view.findGuest('web')?.guest.uuid).to.equal(uuidOf(3))
    expect((await registry.find('web'))?.uuid).to.equal(uuidOf(3))
  })

  it('stay reserved if a gateway starts before the host reports the guest', async () => {
    const { hostId, agent } = await test.addHost('one')
    const registry = new GuestRegistry(test.store)
    const room = { hostId, limits: spec.limits!, untilMs: 0 }
    const onHost = { isShown: () => false, place: () => ({ hostId, room, changes: new Map() }) }
    await registry.reserve({ name: 'coming', operationId: randomUUID(), ...onHost })
    await test.fleet.close()
    const next = await test.startGateway()
    await waitFor(() => next.view.findHost(hostId)?.state === 'online')
    expect(await codeOf(next.createGuest(creationRequest('coming')))).to.equal('name_conflict')
    expect(agent.guests().length).to.equal(0)
  })

  it('stay the same if the creation is repeated, and are free again if the creation is rejected', async () => {
    const { agent } = await test.addHost('one')
    let asked = 0
    const { engine } = agent.domain
    const submit = engine.submit.bind(engine)
    engine.submit = (order) => {
      asked++
      return submit(order)
    }
    const ssh = { spec: { ...spec, portMappings: [wireMapping({ containerPort: 22 })] } }
    const same = creationRequest('web', ssh)
    const [first, second] = [await test.fleet.createGuest(same), await test.fleet.createGuest(same)]
    expect(answerOf(second)).to.deep.equal(answerOf(first))
    expect(agent.guests().length).to.equal(1)
    expect(asked, 'requests to the agent').to.equal(2)
    const taken = first.response.guest!.portMappings[0]!.hostPort
    const clash = { spec: { ...spec, portMappings: [wireMapping({ containerPort: 22, hostPort: taken })] } }
    expect(await codeOf(test.fleet.createGuest(creationRequest('bad', clash)))).to.equal('port_conflict')
    expect(await codeOf(test.fleet.createGuest(creationRequest('bad')))).to.equal('ok')
  })

  it('are unique, so that only one of 50 concurrent creations with the same name succeeds', async () => {
    await test.addHost('a')
    await test.addHost('b')
    const names = Array.from({ length: 50 }, (_, n) => (n % 2 ? 'Same' : 'same'))
    const codes = await Promise.all(names.map((name) => codeOf(test.fleet.createGuest(creationRequest(name)))))
    expect(codes.filter((code) => code === 'ok')).to.have.length(1)
    expect(codes.filter((code) => code === 'name_conflict')).to.have.length(49)
    expect([...test.fleet.view.guests()]).to.have.length(1)
  })

  it('are unique even if two gateways use the same store', async () => {
    await test.addHost('a')
    const other = await test.startGateway()
    await waitFor(() => other.view.hosts()[0]?.state === 'online')
    const codes = await Promise.all(
      Array.from({ length: 20 }, (_, n) => codeOf((n % 2 ? other : test.fleet).createGuest(creationRequest('same')))),
    )
    expect(codes.filter((code) => code === 'ok')).to.have.length(1)
    const made = await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 ? other : test.fleet).createGuest(creationRequest(`n${n}`))),
    )
    expect(new Set(made.map(({ response }) => response.guest!.id)).size).to.equal(20)
    await test.addHost('b')
    await waitFor(() => other.view.hosts().filter(({ state }) => state === 'online').length === 2)
  })

  it('include the names and ids of guests that a new host already has', async () => {
    const { hostId } = await test.addHost('one', { guests: 1, firstId: 500 })
    expect((await test.fleet.createGuest(creationRequest('next'))).response.guest?.id).to.equal(501)
    expect(await codeOf(test.fleet.createGuest(creationRequest('SIM-500')))).to.equal('name_conflict')
    expect(await test.store.client.hLen(test.store.key('guests'))).to.equal(2)
    expect(test.fleet.view.findHost(hostId)?.warnings).to.deep.equal([])
  })

  it('stay with the first host, with a warning, if a second host reports the same guest', async () => {
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
    // A new gateway cannot reach host a, so only host b reports the guest to it. The store records that host a has the
    // guest, so the gateway must not assign it to host b.
    await a.agent.stop()
    const other = await test.startGateway()
    await waitFor(() => other.view.findHost(b.hostId)?.state === 'online')
    // The new gateway may show the guest at host a (from a stored report) or not at all, but not at host b.
    expect(other.view.findGuest('sim-3')?.hostId).not.to.equal(b.hostId)
    // Host b also reports a change of a guest that belongs to host a. This must not move the guest to host b.
    b.agent.addGuest({ id: 1, uuid: uuidOf(1), name: 'sim-1', userIdSlot: 9 })
    b.agent.update(uuidOf(1), { statusReason: 'stolen' })
    await waitFor(() => test.fleet.view.findHost(b.hostId)?.warnings.join().includes('sim-1'))
    expect(test.fleet.view.findGuest('sim-1')?.hostId).to.equal(a.hostId)
    expect(test.fleet.view.findGuest('sim-1')?.guest.statusReason).to.equal('')
  })
})
