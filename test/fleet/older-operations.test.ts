import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { GuestStore } from '../../agent/guests/record/guest-store.js'
import { OperationStore } from '../../agent/operations/operation-store.js'
import { watchKinds, type WatchStores } from '../../agent/rpc/watch-kinds.js'
import { Changes } from '../../agent/state/changes.js'
import { openDatabase } from '../../agent/state/database.js'
import { WatchSnapshot } from '../../gateway/fleet/snapshot.js'
import { FleetState } from '../../gateway/fleet/view.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { listedOperations } from '../../shared/operation-limits.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { codeOf, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'
import { expectInTime } from '../support/promised-time.js'

const older = 3
const record = {
  id: 'a',
  version: 1,
  name: 'a',
  address: '127.0.0.1:1',
  draining: false,
  createdAtMs: 1,
  serials: ['s'],
  certificateNotAfterMs: 1,
}

describe('operations that are too old for the list of operations', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let test: TestFleet
  beforeEach(async () => (test = await startTestFleet({}, { redis })))
  afterEach(() => test.close())

  it('are left out of the agent’s report, so that the gateway lists only newer operations', () => {
    const { kinds, ids } = journalOf(listedOperations + older)
    const sent = kinds.operation.list(-1)
    expect(sent).to.have.length(listedOperations)
    const view = new FleetState()
    const snapshot = new WatchSnapshot()
    for (const { event } of sent) snapshot.add(event)
    view.replace(view.setHost(record), snapshot)
    expect(view.operations().map(({ operation }) => operation.id)).to.have.members(ids.slice(older))
  })

  it('are requested from agents with limited concurrency, and only once for the same id', async () => {
    await test.addHost('one')
    const askAll = (ids: readonly string[]): Promise<string[]> =>
      Promise.all(ids.map((id) => codeOf(test.fleet.findOperation(id))))
    const codes = await askAll(Array.from({ length: 40 }, () => randomUUID()))
    expect(new Set(codes)).to.deep.equal(new Set(['ok', 'rate_limited']))
    expect(new Set(await askAll(Array(40).fill(randomUUID())))).to.deep.equal(new Set(['ok']))
  })

  it('can be found and removed, even after the gateway restarted', async () => {
    let ids: string[] = []
    await test.addHost('other')
    const { hostId } = await test.addHost('one', {
      prepare: (agent) => (ids = endOperations(agent, listedOperations + older)),
    })
    const next = await test.startGateway()
    for (const fleet of [test.fleet, next]) {
      await waitFor(() => fleet.view.operations().length === listedOperations, { what: 'the listed operations' })
      expect(ids.filter((id) => !fleet.view.findOperation(id))).to.deep.equal(ids.slice(0, older))
      expect(await fleet.findOperation(ids[0]!)).to.deep.include({ hostId })
      expect((await fleet.findOperation(ids[0]!))?.operation.subject?.name).to.equal('old')
      expect(await fleet.findOperation(ids.at(-1)!)).to.equal(fleet.view.findOperation(ids.at(-1)!))
      expect(await fleet.findOperation(randomUUID())).to.equal(undefined)
      expect(fleet.view.operations(), 'not listed for that').to.have.length(listedOperations)
    }
    const { revision } = await next.agent(hostId).operations.removeOperation({ id: ids[0]! })
    await next.reached(hostId, revision)
    for (const fleet of [test.fleet, next]) {
      expect(await fleet.findOperation(ids[0]!)).to.equal(undefined)
      expect(await fleet.findOperation(ids[1]!)).to.deep.include({ hostId })
    }
  })

  it('are soon reported as not found if their host is offline or silent', async () => {
    const id = randomUUID()
    const never = new Promise<Operation>(() => undefined)
    await test.addRogue('stalled', { onGetOperation: () => never })
    const good = await test.addRogue('good', { onGetOperation: (asked) => made(asked) })
    const begun = performance.now()
    expect(await test.fleet.findOperation(id)).to.deep.include({ hostId: good.hostId })
    expectInTime(begun, 5000, 'an answer')
    good.agent.stop()
    await waitFor(() => test.fleet.view.findHost(good.hostId)?.state === 'offline')
    expect(await test.fleet.findOperation(id)).to.equal(undefined)
  })

  it('are validated by the gateway like all data from an agent', async () => {
    const id = randomUUID()
    let answer = (): Partial<Operation> => ({})
    const asked: string[] = []
    const { hostId } = await test.addRogue('bad', {
      onGetOperation: (one) => {
        asked.push(one)
        return { ...made(one), ...answer() }
      },
    })
    const long = 'x'.repeat(100_000)
    answer = () => ({ error: long, stage: long, progress: 1000, createdAtMs: -1 })
    const found = await test.fleet.findOperation(id)
    expect(found?.operation).to.include({ progress: 100, createdAtMs: 0 })
    expect([found?.operation.error.length, found?.operation.stage.length]).to.deep.equal([1000, 1000])
    for (const lie of [randomUUID(), '', 'a b']) {
      answer = () => ({ id: lie })
      expect(await test.fleet.findOperation(id), lie).to.equal(undefined)
    }
    expect(test.fleet.view.findHost(hostId)?.warnings).not.to.deep.equal([])
    expect(await test.fleet.findOperation('no-uuid')).to.equal(undefined)
    expect(new Set(asked)).to.deep.equal(new Set([id]))
  })

  it('are not found if two hosts report the same operation id, and cause a warning at these two hosts', async () => {
    let ids: string[] = []
    const good = await test.addHost('good', {
      prepare: (agent) => (ids = endOperations(agent, listedOperations + older)),
    })
    const bad = await test.addRogue('bad', { onGetOperation: (id) => made(id) })
    expect(await test.fleet.findOperation(ids[0]!)).to.equal(undefined)
    for (const { hostId } of [good, bad]) expect(test.fleet.view.findHost(hostId)?.warnings.join()).to.include(ids[0])
    // The gateway has this operation in its own list, so it does not ask the agents.
    expect(await test.fleet.findOperation(ids.at(-1)!)).to.include({ hostId: good.hostId })
  })
})

function made(id: string): Operation {
  return Operation.fromPartial({ id, action: 'stop', status: 'done' })
}

/** Adds ended operations to the agent's journal. @returns their ids, oldest first */
function endOperations({ domain }: LabAgent, count: number): string[] {
  return journalEnded(domain.engine.store, count)
}

/** A fake journal of an agent with `count` ended operations. */
function journalOf(count: number) {
  const changes = new Changes(openDatabase(':memory:'))
  const operations = new OperationStore(changes)
  const ids = journalEnded(operations, count)
  const parts = { operations, guests: new GuestStore(changes) }
  return { ids, kinds: watchKinds(parts as unknown as WatchStores) }
}

function journalEnded(operations: OperationStore, count: number): string[] {
  const ids = Array.from({ length: count }, () => randomUUID())
  const subject = { kind: 'guest', id: 'g', name: 'old', number: 0 }
  const given = { action: 'stop', subject, requestHash: '', input: null }
  const nowMs = Date.now()
  operations.changes.transaction(() =>
    ids.forEach((id, index) => {
      operations.insert({ ...given, id, requestedBy: 'test', createdAtMs: nowMs + index })
      operations.end(id, 'done', nowMs + index)
    }),
  )
  return ids
}
