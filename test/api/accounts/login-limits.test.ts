import { expect } from 'chai'
import { LoginLimits, type Trier } from '../../../gateway/accounts/login-limits.js'
import type { Store } from '../../../gateway/store/store.js'
import { startTestRedis, type TestRedis } from '../../support/gateway/redis.js'

const attackers = 2500

/** Tests only the counts, in a real Redis, because checking ten thousand passwords would take minutes. */
describe('login attempts', function () {
  let redis: TestRedis
  let store: Store
  let limits: LoginLimits

  before(async () => {
    redis = await startTestRedis()
    store = await redis.openStore()
    limits = new LoginLimits(store)
  })
  after(() => redis.stop())

  const trier = (address: string, device?: string): Trier => ({ username: 'Owner', address, device })
  const addressOf = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`
  /** @returns the attempt, or undefined if the limits refuse it */
  const enters = (who: Trier) =>
    limits.enter(who).then(
      (attempt) => attempt,
      () => undefined,
    )

  it(`do not lock out the account’s owner, even if ${attackers} addresses send 10,000 wrong passwords`, async () => {
    let through = 0
    for (let round = 0; round < 4; round++)
      for (let n = 0; n < attackers; n += 100)
        await Promise.all(
          Array.from({ length: 100 }, async (_, at) => {
            if (await enters(trier(addressOf(n + at)))) through++
          }),
        )
    // Each address may make five attempts, and only two once the attack is detected.
    expect(through).to.be.within(2 * attackers, 2 * attackers + 500)
    const owner = await enters(trier('203.0.113.9'))
    expect(owner, 'from a place of his own').to.not.equal(undefined)
    await owner?.succeeded()
    expect(await enters(trier(addressOf(7))), 'an attacker').to.equal(undefined)
    expect(await enters(trier(addressOf(7), 'known')), 'from an attacker’s place, on his device').to.not.equal(
      undefined,
    )
  })

  it('are limited per source (for IPv6: a /64 network), even if they try many accounts', async () => {
    const answers = []
    for (let n = 0; n < 40; n++)
      answers.push(await enters({ username: `u${n}`, address: `2001:db8::${n + 1}`, device: undefined }))
    expect(answers.filter((attempt) => attempt !== undefined)).to.have.length(30)
    expect(await enters({ username: 'u99', address: '2001:db8:0:1::1', device: undefined })).to.not.equal(undefined)
  })

  it('reset the counter of the account, but not the counter of the source, if they succeed', async () => {
    const who = { username: 'clumsy', address: '192.0.2.77', device: undefined }
    for (let round = 0; round < 3; round++) {
      for (let n = 0; n < 4; n++) await limits.enter(who)
      await (await limits.enter(who)).succeeded()
    }
    const left = await store.client.get(store.key('login-attempts', 'source:192.0.2.77'))
    expect(left).to.equal('12')
  })

  it('are not counted if the gateway did not check their password', async () => {
    const who = { username: 'crowded', address: '192.0.2.78', device: undefined }
    for (let n = 0; n < 20; n++) await (await limits.enter(who)).abandoned()
    await limits.enter(who)
    expect(await store.client.get(store.key('login-attempts', 'source:192.0.2.78'))).to.equal('1')
  })

  it('with a second-factor code are limited per account, whatever their source address', async () => {
    const code = (n: number, device?: string) =>
      limits.enter({ username: 'coded', address: addressOf(100_000 + n), device }, 'code').then(
        () => true,
        () => false,
      )
    const answers = []
    for (let n = 0; n < 60; n++) answers.push(await code(n))
    expect(answers.filter(Boolean)).to.have.length(30)
    expect(await code(1000, 'known'), 'on a known device').to.equal(true)
    const recovery = await enters({ username: 'coded', address: addressOf(200_000), device: undefined })
    expect(recovery, 'a recovery code').to.not.equal(undefined)
  })

  it('store only counters that expire', async () => {
    const client = store.client
    for await (const names of client.scanIterator({ MATCH: store.key('login-*') }))
      for (const name of names) expect(await client.pTTL(name), name).to.be.greaterThan(0)
  })
})
