import { expect } from 'chai'
import { openDatabase } from '../../state/database.js'
import { readPool, replacePool } from './address-tables.js'
import type { Ipv6Mode, Ipv6Source } from './plan-ipv6.js'
import { ipv6NetworkOf } from './pool.js'
import {
  adoptAddresses,
  checkSharedPrefixes,
  departAddresses,
  parseSharedPools,
  planKept,
  planKeptIpv6,
  readDeparted,
  readElsewhere,
  type KeptFacts,
  type KeptIpv6Facts,
} from './shared-pools.js'

const rack = { name: 'rack', range: '203.0.113.0/24', interface: '' }
const facts: KeptFacts = {
  own: [rack],
  others: [{ name: 'rack', range: '203.0.113.0/24' }],
  uplink: 'eth0',
  interfaces: new Set(['eth0', 'eth1']),
  isFree: () => true,
}
const [inside, outside] = ['203.0.113.7', '198.51.100.7']

describe('the addresses that a guest keeps when it moves', () => {
  for (const [name, changed, addresses, kept] of [
    ['stay in a pool that both hosts serve', {}, [inside], [`${inside}@eth0`]],
    ['are on the interface of the pool', { own: [{ ...rack, interface: 'eth1' }] }, [inside], [`${inside}@eth1`]],
    ['are only those in the pool', {}, [outside, inside], [`${inside}@eth0`]],
    ['do not stay if the pools have different names', { others: [{ ...rack, name: 'other' }] }, [inside], []],
    [
      'do not stay if the pools have different ranges',
      { others: [{ ...rack, range: '203.0.113.0/25' }] },
      [inside],
      [],
    ],
    ['do not stay if the present host has no shared pool', { others: [] }, [inside], []],
    ['do not stay if this host has no shared pool', { own: [] }, [inside], []],
    ['are only those that are free', { isFree: (address: string) => address !== inside }, [inside], []],
    ['do not stay without a default route', { uplink: '' }, [inside], []],
    ['do not stay if the interface is missing', { own: [{ ...rack, interface: 'eth9' }] }, [inside], []],
  ] as [string, Partial<KeptFacts>, string[], string[]][])
    it(name, () => {
      const found = planKept(addresses, { ...facts, ...changed })
      expect(found.map(({ address, interface: device }) => `${address}@${device}`)).to.deep.equal(kept)
    })
})

const prefixOf = (prefix: string, prefixLen: number, device = 'eth0') => ({
  prefix,
  prefixLen,
  interface: device,
  address: '',
  gateway: '',
})
function sourceOf(mode: Ipv6Mode, prefixLen = 64, device = 'eth0'): Ipv6Source {
  const prefix = prefixOf('2001:db8:1::', prefixLen, device)
  return { mode, prefix, network: ipv6NetworkOf(prefix) }
}

describe('the IPv6 addresses that a guest keeps when it moves', () => {
  const rack6 = { name: 'rack-6', range: '2001:db8:1::/64', interface: '' }
  const facts6: KeptIpv6Facts = {
    own: [rack, rack6],
    others: [{ name: 'rack-6', range: '2001:db8:1::/64' }],
    uplink: 'eth0',
    sources: [sourceOf('proxied')],
    isFree: () => true,
  }
  const [one, other] = ['2001:db8:1::7', '2001:db8:2::7']
  for (const [name, changed, kept] of [
    ['stay in a prefix that both hosts serve', {}, [one]],
    ['do not stay if the pools have different names', { others: [{ ...rack6, name: 'other' }] }, []],
    ['do not stay if the pools have different ranges', { others: [{ ...rack6, range: '2001:db8:1::/80' }] }, []],
    ['do not stay if the present host has no shared pool', { others: [] }, []],
    ['do not stay if the prefix is routed to one host', { sources: [sourceOf('routed')] }, []],
    ['do not stay if this host does not have the prefix', { sources: [] }, []],
    ['do not stay if the prefix of this host is small', { sources: [sourceOf('proxied', 112)] }, []],
    ['do not stay if the prefix is on another interface', { sources: [sourceOf('proxied', 64, 'eth1')] }, []],
    [
      'stay if the pool names the interface of the prefix',
      { own: [{ ...rack6, interface: 'eth1' }], sources: [sourceOf('proxied', 64, 'eth1')] },
      [one],
    ],
    ['do not stay if they are in use on this host', { isFree: () => false }, []],
  ] as [string, Partial<KeptIpv6Facts>, string[]][])
    it(name, () => expect(planKeptIpv6([other, one], { ...facts6, ...changed })).to.deep.equal(kept))

  it('do not include the first address of a prefix, which belongs to its routers', () => {
    expect(planKeptIpv6(['2001:db8:1::'], facts6)).to.deep.equal([])
  })

  it('can only be in large prefixes', () => {
    const check = (...prefixes: [string, number][]): void =>
      checkSharedPrefixes(
        prefixes.map(([prefix, length]) => prefixOf(prefix, length)),
        [rack, rack6],
      )
    check(['2001:db8:1::', 64], ['2001:db8:1:0:1::', 80], ['2001:db8:2::', 112])
    expect(() => check(['2001:db8:2::', 112], ['2001:db8:1::', 112])).to.throw('ipv6_prefixes.1.prefix_len: must be')
  })
})

describe('the configured shared pools', () => {
  const parse = (...pools: object[]): unknown =>
    parseSharedPools(pools.map((pool) => ({ ...rack, ...pool }))).map(({ range }) => range)

  it('have ranges in canonical form', () => {
    expect(parse({ range: '203.0.113.9/24' }, { name: 'v6', range: '2001:DB8:1:0::/64' })).to.deep.equal([
      '203.0.113.0/24',
      '2001:db8:1::/64',
    ])
  })
  it('must have valid ranges and different names', () => {
    expect(() => parse({ range: '203.0.113.0/33' })).to.throw('must be an IPv4 or IPv6 network')
    expect(() => parse({ range: '2001:db8::/96' })).to.throw('prefix length of at most 80')
    expect(() => parse({}, { range: '198.51.100.0/24' })).to.throw('rack appears more than once')
  })
})

describe('the pool of a host that shares addresses with other hosts', () => {
  it('loses addresses that leave with a guest, until they return', () => {
    const db = openDatabase(':memory:')
    const item = (address: string) => ({ address, interface: 'eth0', prefixLen: 24, gateway: '' })
    replacePool(db, [item(inside), item(outside)])
    expect(departAddresses(db, [inside, '203.0.113.8'])).to.deep.equal([item(inside)])
    expect(readPool(db)).to.deep.equal([item(outside)])
    expect([...readDeparted(db)]).to.deep.equal([inside])
    expect([...readElsewhere(db, false)]).to.deep.equal([inside])
    expect([...readElsewhere(db, true)]).to.deep.equal([])
    adoptAddresses(db, [item(inside)])
    expect(readPool(db)).to.deep.equal([item(outside), item(inside)])
    expect([...readElsewhere(db, false)]).to.deep.equal([])
    db.close()
  })
})
