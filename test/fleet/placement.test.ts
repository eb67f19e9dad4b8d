import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import type { GatewayFleet } from '../../gateway/fleet/fleet.js'
import { roomLifetimeMs, type ReservedRoom } from '../../gateway/fleet/placement/plan-rooms.js'
import type { Store } from '../../gateway/store/store.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { codeOf, creationRequest, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { MemoryHost } from '../support/memory/memory-host.js'
import { waitFor } from '../support/wait.js'

const guestMb = 512
/** Number of guests for which each host has memory, by name of the host. */
const places = { small: 10, medium: 20, large: 50 }
const placement = { cpu_ratio: 0, ram_ratio: 1, disk_ratio: 0 }

interface LabHost {
  readonly hostId: string
  readonly agent: LabAgent
}

/** Gateways with their own connections to one Redis, and simulated hosts whose only scarce resource is memory. */
class Lab {
  #created = 0

  private constructor(
    readonly test: TestFleet,
    readonly gateways: readonly GatewayFleet[],
    readonly stores: readonly Store[],
    readonly hosts: ReadonlyMap<string, LabHost>,
  ) {}

  static async start(redis: TestRedis, count: number, sizes: Record<string, number> = places): Promise<Lab> {
    const test = await startTestFleet({ placement }, { redis })
    const stores = [test.store]
    while (stores.length < count) stores.push(await redis.openStore(test.store.key('')))
    const hosts = new Map<string, LabHost>()
    for (const [name, size] of Object.entries(sizes)) {
      const host = new MemoryHost({ cpuCores: 64, ramTotalMb: size * guestMb, diskTotalGb: 65_536 })
      hosts.set(name, await test.addHost(name, { host, parallel: 0 }))
    }
    const others = await Promise.all(stores.slice(1).map((store) => test.startGateway(store)))
    for (const gateway of others)
      await waitFor(() => gateway.view.hosts().filter(({ state }) => state === 'online').length === hosts.size)
    return new Lab(test, [test.fleet, ...others], stores, hosts)
  }

  /** Creates guests at once, in turn through each gateway. @returns `ok` or the code of the error for each guest */
  async createAll(count: number): Promise<string[]> {
    const { gateways } = this
    const create = (gateway: GatewayFleet) => codeOf(gateway.createGuest(creationRequest(`guest-${++this.#created}`)))
    return Promise.all(Array.from({ length: count }, (_, n) => create(gateways[n % gateways.length]!)))
  }

  /** Number of guests in the journal of each host, by name of the host. */
  get counts(): Record<string, number> {
    return Object.fromEntries([...this.hosts].map(([name, { agent }]) => [name, agent.guests().length]))
  }

  async close(): Promise<void> {
    await this.test.close()
  }
}

describe('several gateways that create guests on the same hosts', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let lab: Lab | undefined
  afterEach(() => lab?.close())

  it('use all resources of a host, but never more than these resources', async () => {
    lab = await Lab.start(redis, 3)
    const refusals = countRefusals(lab)
    const results = []
    // When a wave begins, most reservations of the previous wave still exist. Hosts already report guests of that wave.
    for (const wave of [25, 25, 25, 25]) results.push(...(await lab.createAll(wave)))
    expect(results.filter((code) => code === 'ok')).to.have.length(80)
    expect(results.filter((code) => code === 'resource_exhausted')).to.have.length(20)
    expect(lab.counts).to.deep.equal(places)
    expect(refusals(), 'guests that were refused only by agents').to.equal(0)
  })

  it('never allocate more than a host has, even if 100 requests arrive at the same time', async () => {
    lab = await Lab.start(redis, 3)
    const results = await lab.createAll(100)
    expect(results.filter((code) => code === 'ok')).to.have.length(80)
    expect(lab.counts).to.deep.equal(places)
  })

  it('spread 100 simultaneous guests over the hosts just as a single gateway does', async () => {
    const sizes = { small: 50, medium: 100, large: 250 }
    const counts = []
    for (const gateways of [1, 3]) {
      lab = await Lab.start(redis, gateways, sizes)
      await lab.createAll(40)
      counts.push(lab.counts)
      await lab.createAll(60)
      counts.push(lab.counts)
      await lab.close()
    }
    lab = undefined
    const [half, all] = [
      { small: 5, medium: 10, large: 25 },
      { small: 12, medium: 25, large: 63 },
    ]
    expect(counts).to.deep.equal([half, all, half, all])
  })

  it('never allocate more than a host has, even while the store loses reservations', async () => {
    lab = await Lab.start(redis, 3)
    const { stores, gateways } = lab
    let isDone = false
    const loss = (async () => {
      while (!isDone) await stores[0]!.client.del(stores[0]!.key('reserved-rooms'))
    })()
    const results = await Promise.all(
      Array.from({ length: 100 }, async (_, n) => {
        await delay(n) // without these delays, each gateway would need only one transaction for all its guests
        return codeOf(gateways[n % 3]!.createGuest(creationRequest(`guest-${n}`)))
      }),
    )
    isDone = true
    await loss
    expect(results.filter((code) => code === 'ok')).to.have.length(80)
    expect(lab.counts).to.deep.equal(places)
  })

  it('use another host if an agent refuses a guest because unknown guests use the resources of its host', async () => {
    lab = await Lab.start(redis, 1, { one: 2, other: 1 })
    const { agent } = lab.hosts.get('one')!
    const { engine } = agent.domain
    const submit = engine.submit.bind(engine)
    engine.submit = (order) => {
      if (agent.guests().length === 0) agent.seed(2, 500)
      return submit(order)
    }
    const [gateway] = lab.gateways
    const { hostId } = await gateway!.createGuest(creationRequest('new'))
    expect(hostId).to.equal(lab.hosts.get('other')!.hostId)
    expect(await codeOf(gateway!.createGuest(creationRequest('more')))).to.equal('resource_exhausted')
    expect(lab.counts).to.deep.equal({ one: 2, other: 1 })
  })

  it('can use the resources in a dead gateway’s reservation after this reservation has expired', async () => {
    lab = await Lab.start(redis, 2, { one: 1 })
    const [gateway, dying] = lab.gateways as [GatewayFleet, GatewayFleet]
    const { client } = lab.test.store
    const key = lab.test.store.key('reserved-rooms')
    const { operations } = dying.agent(lab.hosts.get('one')!.hostId)
    Object.assign(operations, { submitOperation: () => new Promise(() => undefined) })
    void dying.createGuest(creationRequest('lost'))
    await waitFor(async () => (await client.hLen(key)) === 1, { what: 'the reservation' })
    await dying.close()
    expect(await codeOf(gateway.createGuest(creationRequest('new')))).to.equal('resource_exhausted')
    const [[id, text] = ['', '']] = Object.entries(await client.hGetAll(key))
    const room = JSON.parse(text) as ReservedRoom
    expect(room.untilMs).to.be.at.most(Date.now() + roomLifetimeMs)
    await client.hSet(key, id, JSON.stringify({ ...room, untilMs: Date.now() - 1 }))
    expect(await codeOf(gateway.createGuest(creationRequest('new')))).to.equal('ok')
    expect(await client.hExists(key, id), 'the expired reservation').to.equal(0)
  })
})

/** @returns a function that returns the number of creations that agents have refused */
function countRefusals({ hosts }: Lab): () => number {
  let count = 0
  for (const { agent } of hosts.values()) {
    const { engine } = agent.domain
    const submit = engine.submit.bind(engine)
    engine.submit = (order) => {
      try {
        return submit(order)
      } catch (error) {
        count++
        throw error
      }
    }
  }
  return () => count
}
