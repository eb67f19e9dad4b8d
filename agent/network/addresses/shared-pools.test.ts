import { expect } from 'chai'
import { openDatabase } from '../../state/database.js'
import { readPool, replacePool } from './address-tables.js'
import {
  adoptAddresses,
  departAddresses,
  parseSharedPools,
  planKept,
  readDeparted,
  readElsewhere,
  type KeptFacts,
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

describe('the configured shared pools', () => {
  const parse = (...pools: object[]): unknown =>
    parseSharedPools(pools.map((pool) => ({ ...rack, ...pool }))).map(({ range }) => range)

  it('have ranges in canonical form', () => {
    expect(parse({ range: '203.0.113.9/24' })).to.deep.equal(['203.0.113.0/24'])
  })
  it('must have valid ranges and different names', () => {
    expect(() => parse({ range: '203.0.113.0/33' })).to.throw('must be an IPv4 network')
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
