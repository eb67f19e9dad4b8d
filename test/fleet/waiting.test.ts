import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { notFound } from '../../shared/errors.js'
import { powerOrder } from '../support/host/agent-calls.js'
import { CutLine } from '../support/cut-line.js'
import { freePort } from '../support/ports.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { RogueAgent } from '../support/attacks/rogue-agent.js'
import { codeOf, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

/** A timeout in ms that none of these tests reaches. */
const long = 600_000
const refuse = (): never => {
  throw notFound('container')
}
const never = (): Promise<never> => new Promise(() => undefined)

describe('calls that possibly need a host', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let test: TestFleet
  afterEach(() => test.close())

  it('return when the host goes offline, no matter what they wait for', async () => {
    test = await startTestFleet({ agents: { call_timeout_ms: long, reconnect_ms: 100 } }, { redis })
    let calls = 0
    const onCall = (): Promise<never> => (calls++, never())
    const { hostId, agent } = await test.addRogue('one', { onCall })
    const { fleet } = test
    const order = { ...powerOrder('stop', randomUUID()), operationId: randomUUID() }
    const { guests, operations } = fleet.agent(hostId)
    const waiting = Promise.all([
      codeOf(guests.getGuestUsage({ uuid: '' })),
      codeOf(operations.submitOperation(order)),
      codeOf(operations.cancelOperation({ id: '' })),
      codeOf(fleet.reached(hostId, 1_000_000)),
      codeOf(fleet.ended({ hostId, operationId: randomUUID() }, long)),
    ])
    await waitFor(() => calls === 3, { what: 'all calls to arrive' })
    agent.stop()
    expect(await waiting).to.deep.equal(['agent_timeout', 'agent_timeout', 'agent_timeout', 'ok', 'ok'])
    expect(fleet.view.findHost(hostId)?.state).to.equal('offline')
    expect(await codeOf(fleet.reached(hostId, 1_000_000))).to.equal('ok')
    expect(() => fleet.agent(hostId)).to.throw('host one is not connected')
  })

  it('return when no more data arrives over the connection to the host', async () => {
    test = await startTestFleet({ agents: { call_timeout_ms: long, reconnect_ms: 100, silence_ms: 1500 } }, { redis })
    const onCall = (): Promise<never> => never()
    const { hostId, agent } = await test.addRogue('one', { onCall })
    const line = await CutLine.start(`http://${agent.address}`)
    const { fleet } = test
    await fleet.hosts.updateHost(hostId, { address: line.address })
    await waitFor(() => fleet.view.findHost(hostId)?.state === 'online', { what: 'online again' })
    const waiting = Promise.all([
      codeOf(fleet.agent(hostId).guests.getGuestUsage({ uuid: '' })),
      codeOf(fleet.agent(hostId).operations.cancelOperation({ id: '' })),
      codeOf(fleet.reached(hostId, 1_000_000)),
    ])
    line.silence()
    agent.stop()
    expect(await waiting).to.deep.equal(['agent_timeout', 'agent_timeout', 'ok'])
    await line.close()
  })

  describe('before the first connection to this host', () => {
    /** Starts a host, stops its agent, and starts another gateway. */
    async function restartWithout(reconnectMs: number) {
      test = await startTestFleet({ agents: { call_timeout_ms: long, reconnect_ms: reconnectMs } }, { redis })
      const listen = `127.0.0.1:${await freePort()}`
      const { hostId, agent } = await test.addRogue('one', { listen })
      agent.stop()
      return { hostId, listen, fleet: await test.startGateway() }
    }

    it('wait until this host is connected', async () => {
      const { hostId, listen, fleet } = await restartWithout(long)
      const { guests, operations } = fleet.agent(hostId)
      const waiting = Promise.all([
        codeOf(guests.getGuestUsage({ uuid: '' })),
        codeOf(operations.cancelOperation({ id: '' })),
        codeOf(fleet.expectedConnections()),
      ])
      const agent = await RogueAgent.start(`${test.directory}/agent-one`, { listen, onCall: refuse })
      expect(await waiting).to.deep.equal(['not_found', 'not_found', 'ok'])
      agent.stop()
    })

    it('wait only if they need this host, for example as the target of a move', async () => {
      test = await startTestFleet({ agents: { call_timeout_ms: long, reconnect_ms: long } }, { redis })
      await test.addHost('one', { guests: 1 })
      const listen = `127.0.0.1:${await freePort()}`
      const { hostId, agent } = await test.addRogue('two', { listen })
      agent.stop()
      const fleet = await test.startGateway()
      await fleet.expectedConnections('sim-1')
      expect(fleet.view.findHost(hostId)?.state).to.equal('offline')
      const move = codeOf(
        fleet.relocation.moves.check({ guest: fleet.view.findGuest('sim-1')!, toHostId: hostId, offline: false }),
      )
      const returned = await RogueAgent.start(`${test.directory}/agent-two`, { listen })
      expect(await move).to.equal('move_unsupported')
      returned.stop()
    }).timeout(120_000)

    it('fail with “host_offline” if this host is not connected in time', async () => {
      const { hostId, fleet } = await restartWithout(100)
      await fleet.expectedConnections()
      await waitFor(async () => (await codeOf(Promise.resolve().then(() => fleet.agent(hostId)))) === 'host_offline')
    })
  })

  describe('while the connection to this host is replaced', () => {
    let listen: string
    let first: { hostId: string; agent: RogueAgent }
    let second: RogueAgent | undefined
    let asked: number
    beforeEach(async () => {
      test = await startTestFleet({ agents: { call_timeout_ms: long, reconnect_ms: 60_000 } }, { redis })
      listen = `127.0.0.1:${await freePort()}`
      asked = 0
      const onCall = (): Promise<never> => (asked++, never())
      first = await test.addRogue('one', { listen, onCall })
    })
    afterEach(() => second?.stop())

    async function replace(): Promise<void> {
      first.agent.stop()
      await waitFor(() => test.fleet.view.findHost(first.hostId)?.state === 'online')
      const identityDir = `${test.directory}/agent-one`
      second = await RogueAgent.start(identityDir, { listen, onCall: refuse })
    }

    it('wait for the next connection', async () => {
      first.agent.stop()
      const { guests, operations } = test.fleet.agent(first.hostId)
      const calls = Promise.all([
        codeOf(guests.getGuestUsage({ uuid: '' })),
        codeOf(operations.cancelOperation({ id: '' })),
      ])
      await replace()
      for (const code of await calls) expect(['not_found', 'agent_timeout']).to.include(code)
      expect(await codeOf(test.fleet.agent(first.hostId).operations.cancelOperation({ id: '' }))).to.equal('not_found')
    })

    it('are sent again if a repetition is safe, and otherwise fail with “agent_timeout”', async () => {
      const { guests, operations } = test.fleet.agent(first.hostId)
      const order = { ...powerOrder('stop', randomUUID()), operationId: randomUUID() }
      const calls = Promise.all([
        codeOf(guests.getGuestUsage({ uuid: '' })),
        codeOf(operations.submitOperation(order)),
        codeOf(operations.cancelOperation({ id: '' })),
      ])
      await waitFor(() => asked === 3, { what: 'all calls to arrive' })
      await replace()
      expect(await calls).to.deep.equal(['not_found', 'not_found', 'agent_timeout'])
    })
  })
})
