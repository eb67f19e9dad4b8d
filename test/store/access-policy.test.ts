import { expect } from 'chai'
import type { IncomingHttpHeaders } from 'node:http'
import { AccessPolicies, type AccessPolicy } from '../../gateway/policy/access-policy.js'
import { Store } from '../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

const [in4, out4, listed, second, loopback] = ['192.0.2.5', '203.0.113.9', '10.0.0.1', '10.0.0.2', '127.0.0.1']
const [xff, xri, cf] = ['x-forwarded-for', 'x-real-ip', 'cf-connecting-ip']
const allowedSources = ['192.0.2.0/24', '2001:db8:a::/48']
const base = { enabled: true, allowedSources, trustedProxies: [listed, second] }

type Case = readonly [
  what: string,
  peer: string,
  headers: IncomingHttpHeaders,
  allowed: boolean,
  policy?: Partial<AccessPolicy>,
]

const cases: readonly Case[] = [
  ['is off', out4, {}, true, { enabled: false }],
  ['an allowed address', in4, {}, true],
  ['another address', out4, {}, false],
  ['an allowed IPv4-mapped address', `::ffff:${in4}`, {}, true],
  ['an allowed IPv6 address', '2001:db8:a::1', {}, true],
  ['another IPv6 address', '2001:db8:b::1', {}, false],
  ['a client that claims an allowed address', out4, { [xff]: in4 }, false],
  ['a client that claims it in other headers', out4, { [xri]: in4, [cf]: in4 }, false],
  ['behind a proxy', listed, { [xff]: in4 }, true],
  ['behind a proxy, claiming an allowed address', listed, { [xff]: `${in4}, ${out4}` }, false],
  ['behind a proxy, claiming another address', listed, { [xff]: `${out4}, ${in4}` }, true],
  ['behind two proxies', listed, { [xff]: `${in4}, ${second}` }, true],
  ['behind a proxy that adds a port', listed, { [xff]: `${in4}:4711` }, true],
  ['behind a proxy, IPv6 with a port', listed, { [xff]: '[2001:db8:a::9]:443' }, true],
  ['behind a proxy that does not know the address', listed, { [xff]: `${in4}, unknown` }, false],
  ['an address with a leading zero', listed, { [xff]: '192.0.02.5' }, false],
  ['a proxy behind a proxy', listed, { [xff]: second }, false],
  ['too many hops', listed, { [xff]: `${`${second},`.repeat(40)}${in4}` }, false],
  ['X-Real-IP of a proxy', listed, { [xri]: in4 }, true],
  ['X-Forwarded-For before X-Real-IP', listed, { [xff]: out4, [xri]: in4 }, false],
  ['X-Forwarded-For before CF-Connecting-IP', listed, { [xff]: out4, [cf]: in4 }, false],
  ['a blank X-Forwarded-For', listed, { [xff]: ' ', [xri]: in4 }, true],
  ['CF-Connecting-IP of a proxy', listed, { [cf]: in4 }, true],
  ['loopback behind a proxy', listed, { [xff]: loopback }, false],
  ['this machine', loopback, { host: 'localhost:8080' }, true],
  ['this machine, mapped', '::ffff:127.0.0.1', { host: '127.0.0.1' }, true],
  ['this machine over IPv6', '::1', { host: '[::1]:8080' }, true],
  ['a proxy on this machine that is not trusted', loopback, { host: 'localhost', [xff]: in4 }, false],
  ['a proxy on this machine that announces itself in Via', loopback, { host: 'localhost', via: '1.1 x' }, false],
  [
    'a trusted proxy on this machine, for another address',
    loopback,
    { host: 'localhost', [xff]: out4 },
    false,
    { trustedProxies: [loopback] },
  ],
  [
    'a trusted proxy on this machine',
    loopback,
    { host: 'localhost', [xff]: in4 },
    true,
    { trustedProxies: [loopback] },
  ],
  ['this machine under a foreign name', loopback, { host: 'panel.test' }, false],
  ['IPv4 if all of IPv6 is allowed', '1.2.3.4', {}, false, { allowedSources: ['::/0'] }],
  ['IPv6 if all of IPv4 is allowed', '2001:db8::1', {}, false, { allowedSources: ['0.0.0.0/0'] }],
]

describe('the access policy in the store', () => {
  let redis: TestRedis
  const stores: Store[] = []
  before(async () => {
    redis = await startTestRedis()
  })
  after(async () => {
    for (const store of stores) await store.close()
    await redis.stop()
  })

  const self = { peer: loopback, headers: { host: 'localhost' } }

  async function open(trustedProxies: string[] = []): Promise<AccessPolicies> {
    const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
    const policies = new AccessPolicies({ store, trustedProxies, log: silentLog })
    stores.push(store)
    expect(policies.judge(self).allowed, 'this machine, before the store is available').to.equal(true)
    expect(policies.judge({ peer: in4, headers: {} }).allowed, 'another, then').to.equal(false)
    store.start()
    await waitFor(() => policies.judge({ peer: loopback, headers: { host: 'x' } }).valid && isKnown(policies))
    return policies
  }

  function isKnown(policies: AccessPolicies): boolean {
    try {
      return Array.isArray(policies.policy.allowedSources)
    } catch {
      return false
    }
  }

  it('allows the listed sources and rejects all others', async () => {
    const policies = await open()
    for (const [what, peer, headers, allowed, fields] of cases) {
      await policies.disable()
      await policies.change({ ...base, ...fields }, self)
      expect(policies.judge({ peer, headers }).allowed, what).to.equal(allowed)
    }
  })

  it('trusts the proxies of the configuration, even while the policy is off', async () => {
    const policies = await open(['10.9.0.0/16'])
    await policies.disable()
    expect(policies.judge({ peer: '10.9.1.1', headers: { [xff]: in4 } }).address).to.equal(in4)
  })

  it('cannot be changed so that it locks out the caller or all clients', async () => {
    const policies = await open()
    await policies.change({ ...base, enabled: false }, self)
    const outside = { peer: out4, headers: {} }
    const refusal = async (fields: Partial<AccessPolicy>, asker = self as typeof outside): Promise<unknown> =>
      policies.change(fields, asker).then(
        () => undefined,
        (error: { field?: string }) => error.field,
      )
    expect(await refusal({ enabled: true }, outside)).to.equal('allowed_sources')
    expect(await refusal({ enabled: true, allowedSources: [] })).to.equal('allowed_sources')
    expect(await refusal({ trustedProxies: ['::/0'] })).to.equal('trusted_proxies')
    expect(policies.policy.enabled).to.equal(false)
    expect(await refusal({ enabled: true }, { peer: in4, headers: {} })).to.equal(undefined)
  })

  it('changes at all gateways immediately, and also applies at a gateway that is added later', async () => {
    const [one, two] = [await open(), await open()]
    await one.change(base, self)
    await waitFor(() => !two.judge({ peer: out4, headers: {} }).allowed, { timeoutMs: deadlineOf(2000) })
    expect((await open()).policy).to.deep.equal(base)
    await two.disable()
    await waitFor(() => one.judge({ peer: out4, headers: {} }).allowed, { timeoutMs: deadlineOf(2000) })
  })

  it('stays in effect while the store is down', async () => {
    const policies = await open()
    await policies.change(base, self)
    await redis.stop()
    await waitFor(async () => (await policies.disable().catch(() => 'refused')) === 'refused')
    expect(policies.judge({ peer: out4, headers: {} }).allowed).to.equal(false)
    expect(policies.judge({ peer: in4, headers: {} }).allowed).to.equal(true)
  })
})
