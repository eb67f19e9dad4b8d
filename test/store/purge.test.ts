import { expect } from 'chai'
import { GatewayInstance } from '../../gateway/store/instance.js'
import { purgeStore } from '../../gateway/store/purge.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { refusal } from '../support/refusal.js'

describe('the data of a gateway in a store', () => {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())

  async function keys(): Promise<string[]> {
    const found = new Set<string>() // SCAN may return a key twice
    for await (const some of (await redis.openStore()).client.scanIterator()) some.forEach((key) => found.add(key))
    return [...found].toSorted()
  }

  it('is deleted completely, while keys of other programs stay', async () => {
    const { client } = await redis.openStore()
    const names = Array.from({ length: 2500 }, (_, at) => `btest-a:x:${at}`)
    await client.mSet(Object.fromEntries(names.map((key) => [key, '1'])))
    await client.hSet('btest-a:hosts', 'a', '1')
    const others = ['btest-a', 'btest-ab:x', 'btest-b:btest-a:x', 'else']
    for (const key of others) await client.set(key, '1')
    expect(await purgeStore({ url: redis.url }, 'btest-a:')).to.equal(2501)
    expect(await keys()).to.deep.equal(others)
    expect(await purgeStore({ url: redis.url }, 'btest-a:'), 'again').to.equal(0)
  })

  for (const prefix of ['', 'btest'])
    it(`is not deleted if its key prefix is '${prefix}', which other gateways possibly use`, async () => {
      const before = await keys()
      expect(await refusal(purgeStore({ url: redis.url }, prefix))).to.include('store_shared')
      expect(await keys()).to.deep.equal(before)
    })

  it('is not deleted while another gateway uses it', async () => {
    const store = await redis.openStore('btest-c:')
    const gateway = new GatewayInstance(store)
    await store.client.set('btest-c:instance:another machine/1/2/3', '1')
    expect(await refusal(purgeStore({ url: redis.url }, 'btest-c:'))).to.include('store_shared')
    await store.client.del('btest-c:instance:another machine/1/2/3')
    await store.client.set(`btest-c:instance:${gateway.id.replace(/\/\d+\//, '/1/')}`, '1')
    expect(await purgeStore({ url: redis.url }, 'btest-c:'), 'of a killed gateway').to.equal(1)
  })

  it('is not deleted if the server cannot be reached', async () =>
    expect(await refusal(purgeStore({ url: 'redis://127.0.0.1:1' }, 'btest-a:'))).to.include('store_unavailable'))
})
