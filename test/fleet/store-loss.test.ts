import { expect } from 'chai'
import { codeOf, creationRequest, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

describe('a gateway whose store is down or has lost its data', function () {
  let test: TestFleet
  beforeEach(async () => (test = await startTestFleet()))
  afterEach(() => test.close())

  it('shows its view of the hosts and calls agents, but refuses creations and returns the reason', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 2 })
    await test.redis.process.stop()
    await waitFor(() => !test.store.ready())
    expect(await codeOf(test.fleet.createGuest(creationRequest('web')))).to.equal('store_unavailable')
    const uuid = agent.guests()[0]!.uuid
    expect(await codeOf(test.fleet.agent(hostId).guests.getGuestUsage({ uuid }))).to.equal('ok')
    agent.removeGuest(uuid)
    await test.fleet.reached(hostId, agent.revision)
    expect([...test.fleet.view.guests()]).to.have.length(1)
  })

  for (const loss of ['the whole store', 'the Redis key that contains the hosts'] as const)
    it(`writes hosts, guests, ids and names to the store again if it has lost ${loss}`, async () => {
      const one = await test.addHost('one', { guests: 3, firstId: 500 })
      const two = await test.addHost('two', { guests: 1, firstId: 900 })
      await two.agent.stop()
      await waitFor(() => test.fleet.view.findHost(two.hostId)?.state === 'offline')
      if (loss === 'the whole store') await test.redis.wipe()
      else await test.store.client.del(test.store.key('hosts'))
      const { client } = test.store
      // Names and ids that were used before the loss must not be assigned again, even while the store still lacks them.
      expect(await codeOf(test.fleet.createGuest(creationRequest('SIM-500')))).to.equal('name_conflict')
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
      expect((await test.fleet.createGuest(creationRequest('next'))).response.guest?.id).to.equal(901)
      // The store also contains the guest of the offline host again, so that gateways that start later show it.
      await waitFor(async () => (await client.hLen(test.store.key('shown-guests', two.hostId))) === 1)
      const other = await test.startGateway()
      await waitFor(() => other.view.findHost(one.hostId)?.state === 'online')
      expect(other.view.findGuest('sim-900')?.hostId).to.equal(two.hostId)
      expect(other.view.findHost(one.hostId)?.warnings).to.deep.equal([])
      // A removed host stays removed at both gateways, even if the store loses its content again.
      await test.fleet.hosts.removeHost(two.hostId, { force: true })
      await waitFor(() => other.view.findHost(two.hostId) === undefined, { what: 'removal noticed' })
      await test.redis.wipe()
      await waitFor(async () => (await test.store.client.hKeys(test.store.key('hosts'))).join() === one.hostId)
      expect(other.view.findHost(two.hostId)).to.equal(undefined)
    })

  it('writes the present data of a host to the store again if the store was reset to older data', async () => {
    const { hostId } = await test.addHost('one')
    const key = test.store.key('hosts')
    const old = (await test.store.client.hGet(key, hostId)) ?? ''
    await test.fleet.hosts.updateHost(hostId, { draining: true })
    await test.store.client.hSet(key, hostId, old)
    await waitFor(async () => (await test.store.client.hGet(key, hostId))?.includes('"draining":true'))
    expect(test.fleet.view.findHost(hostId)?.draining).to.equal(true)
  })
})
