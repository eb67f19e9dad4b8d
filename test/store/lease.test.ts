import { expect } from 'chai'
import { Lease } from '../../gateway/store/lease.js'
import { LeasedWrites } from '../../gateway/store/leased-writes.js'
import type { Store } from '../../gateway/store/store.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'

const leaseMs = 600_000

describe('a lease', () => {
  let redis: TestRedis
  let stores: Store[]
  beforeEach(async () => {
    redis = await startTestRedis()
    stores = [await redis.openStore(), await redis.openStore()]
  })
  afterEach(() => redis.stop())

  const leaseOf = (gateway: number, name = 'work'): Lease => new Lease(stores[gateway]!, name, leaseMs)

  it('gets a higher epoch when another holder takes it over, and keeps its epoch when it is renewed', async () => {
    const [one, two] = [leaseOf(0), leaseOf(1)]
    expect([await one.take(), one.epoch]).to.deep.equal([true, 1])
    expect([await one.take(), one.epoch]).to.deep.equal([true, 1])
    expect([await two.take(), two.epoch]).to.deep.equal([false, undefined])
    await one.release()
    expect([await two.take(), two.epoch]).to.deep.equal([true, 2])
    expect([await one.take(), one.epoch]).to.deep.equal([false, undefined])
    expect(two.fence).to.deep.equal({ work: 'work', epoch: 2 })
    expect(() => one.fence).to.throw('another gateway has taken over the lease work')
  })

  it('never gets an epoch that belongs to a lease with another name', async () => {
    const [one, two] = [leaseOf(0), leaseOf(1, 'other-work')]
    await one.take()
    await two.take()
    expect([one.epoch, two.epoch]).to.deep.equal([1, 2])
  })

  it('gets a new epoch if the answer to the previous attempt to take the lease was lost', async () => {
    const lease = leaseOf(0)
    await lease.take()
    const transact = stores[0]!.transact.bind(stores[0])
    stores[0]!.transact = async (...work) => {
      stores[0]!.transact = transact
      await transact(...work)
      throw new Error('the answer was lost')
    }
    expect(await codeOf(lease.take())).to.include('the answer was lost')
    expect([await lease.take(), lease.epoch]).to.deep.equal([true, 2])
  })

  it('gets a higher epoch than any agent has seen, even if the store has lost its epoch counter', async () => {
    const lease = leaseOf(0)
    await lease.take()
    lease.exceed(41)
    expect([await lease.take(), lease.epoch]).to.deep.equal([true, 42])
  })

  it('rejects late writes of its former holder after a takeover', async () => {
    const [one, two] = [leaseOf(0), leaseOf(1)]
    await one.take()
    const writes = new LeasedWrites(stores[0]!, one)
    await writes.write((transaction) => transaction.set('btest:a', 'one'))
    await stores[1]!.client.del(stores[1]!.key('work')) // as if the lease had expired
    expect(await two.take()).to.equal(true)
    expect(await codeOf(writes.write((transaction) => transaction.set('btest:a', 'late')))).to.equal('lease_lost')
    expect(await stores[1]!.client.get('btest:a')).to.equal('one')
  })

  it('refuses a write from before the loss of the lease, even if the same writer holds the lease again', async () => {
    const [one, two] = [leaseOf(0), leaseOf(1)]
    await one.take()
    const early = new LeasedWrites(stores[0]!, one)
    await one.release()
    await two.take()
    await two.release()
    await one.take()
    expect(await codeOf(early.write((transaction) => transaction.set('btest:a', 'late')))).to.equal('lease_lost')
    const present = new LeasedWrites(stores[0]!, one)
    expect(await codeOf(present.write((transaction) => transaction.set('btest:a', 'one')))).to.equal('ok')
    expect(await stores[0]!.client.get('btest:a')).to.equal('one')
  })

  it('lets its holder run 50 writes at the same time', async () => {
    const lease = leaseOf(0)
    await lease.take()
    const writes = new LeasedWrites(stores[0]!, lease)
    const names = Array.from({ length: 50 }, (_, index) => `btest:${index}`)
    await Promise.all(names.map((name) => writes.write((transaction) => transaction.set(name, 'x'))))
    expect(await stores[0]!.client.exists(names)).to.equal(50)
  })
})
