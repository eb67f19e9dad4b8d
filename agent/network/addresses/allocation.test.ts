import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { openDatabase, type Database } from '../../state/database.js'
import { allocateIpv6s, allocatePublicIpv4s, type Ipv6Request } from './allocation.js'
import { parseIpv6Network } from './ipv6.js'
import type { Ipv6Source } from './plan-ipv6.js'
import { replacePool } from './address-tables.js'

const poolOf = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    address: `203.0.113.${i + 1}`,
    interface: 'eth0',
    prefixLen: 32,
    gateway: '',
  }))

function sourceOf(cidr: string): Ipv6Source {
  const network = parseIpv6Network(cidr)!
  const prefix = {
    interface: 'eth0',
    address: '',
    prefix: network.prefix,
    prefixLen: network.prefixLength,
    gateway: '',
  }
  return { mode: 'routed', network, prefix }
}

const request = (cidrs: string[], change: Partial<Ipv6Request> = {}): Ipv6Request => ({
  count: 0,
  addresses: [],
  sources: cidrs.map(sourceOf),
  reserved: new Set(),
  reason: 'the kernel of the host does not support IPv6',
  ...change,
})

function codeOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    return (error as BerthError).code
  }
  return 'accepted'
}

describe('the allocation of guest addresses', () => {
  let db: Database
  let guests = 0

  beforeEach(() => (db = openDatabase(':memory:')))
  afterEach(() => db.close())

  function give(family: 4 | 6, addresses: readonly string[]): string {
    const uuid = `guest-${++guests}`
    db.prepare(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
       VALUES (?, ?, ?, '{}', 'stopped', 'stopped', ?, ?, ?, 0, 0)`,
    ).run(uuid, guests, uuid, guests, `10.64.0.${guests}`, `02:be:${guests}`)
    const insert = db.prepare('INSERT INTO guest_addresses (address, guest_uuid, family, position) VALUES (?, ?, ?, ?)')
    for (const [position, address] of addresses.entries()) insert.run(address, uuid, family, position)
    return uuid
  }

  /** Adds a port mapping with this address as its host_ip. */
  function name(address: string): void {
    db.prepare(
      `INSERT INTO port_mappings (guest_uuid, position, protocol, host_ip, host_port, host_port_end, container_port, container_port_end)
       VALUES (?, 0, 'udp', ?, 30000, 30000, 22, 22)`,
    ).run(give(4, []), address)
  }

  describe('from a pool of public IPv4 addresses', () => {
    it('gives addresses to exactly 8 of 40 guests if the pool has 8 addresses', () => {
      replacePool(db, poolOf(8))
      const results = Array.from({ length: 40 }, () =>
        codeOf(() => give(4, allocatePublicIpv4s(db, { count: 1, addresses: [] }))),
      )
      expect(results.filter((code) => code === 'accepted')).to.have.length(8)
      expect(results.filter((code) => code === 'resource_exhausted')).to.have.length(32)
      const given = db.prepare('SELECT address FROM guest_addresses ORDER BY address').pluck().all()
      expect(given).to.deep.equal(poolOf(8).map(({ address }) => address))
    })

    it('returns the requested addresses first, and then the requested number of free addresses', () => {
      replacePool(db, poolOf(3))
      const [first, ...rest] = allocatePublicIpv4s(db, { count: 2, addresses: ['203.0.113.3'] })
      expect(first).to.equal('203.0.113.3')
      expect(rest.sort()).to.deep.equal(['203.0.113.1', '203.0.113.2'])
    })

    it('can assign an address again after its guest has been deleted', () => {
      replacePool(db, poolOf(1))
      const uuid = give(4, ['203.0.113.1'])
      expect(codeOf(() => allocatePublicIpv4s(db, { count: 1, addresses: [] }))).to.equal('resource_exhausted')
      db.prepare('DELETE FROM guests WHERE uuid = ?').run(uuid)
      expect(allocatePublicIpv4s(db, { count: 1, addresses: [] })).to.deep.equal(['203.0.113.1'])
    })

    it('never assigns an address that a port mapping uses', () => {
      replacePool(db, poolOf(2))
      name('203.0.113.1')
      const wanted = { count: 0, addresses: ['203.0.113.1'] }
      expect(codeOf(() => allocatePublicIpv4s(db, wanted))).to.equal('address_in_use')
      expect(allocatePublicIpv4s(db, { count: 1, addresses: [] })).to.deep.equal(['203.0.113.2'])
      expect(codeOf(() => allocatePublicIpv4s(db, { count: 2, addresses: [] }))).to.equal('resource_exhausted')
    })

    for (const [name, addresses, code] of [
      ['an address outside the pool', ['198.51.100.9'], 'invalid_field'],
      ['text that is not an address', ['203.0.113'], 'invalid_field'],
      ['an address requested twice', ['203.0.113.2', '203.0.113.2'], 'invalid_field'],
      ["another guest's address", ['203.0.113.1'], 'address_in_use'],
    ] as const)
      it(`refuses ${name}`, () => {
        replacePool(db, poolOf(2))
        give(4, ['203.0.113.1'])
        expect(codeOf(() => allocatePublicIpv4s(db, { count: 0, addresses }))).to.equal(code)
      })
  })

  describe('from IPv6 prefixes', () => {
    for (const cidr of ['2001:db8::/48', '2001:db8::/64', '2001:db8::/80', '2001:db8::/120', '2001:db8::f0/124'])
      it(`gives each guest a different address of ${cidr}, but never the network address`, () => {
        const { first, last } = parseIpv6Network(cidr)!
        const all = allocateIpv6s(db, request([cidr], { count: 8 }))
        expect(new Set(all).size).to.equal(8)
        for (const address of all) {
          const value = parseIpv6Network(`${address}/128`)!.first
          expect(value > first && value <= last, address).to.equal(true)
        }
      })

    it('uses all addresses of a small prefix except reserved addresses, and then the next prefix', () => {
      const reserved = new Set(['2001:db8::1', '2001:db8::3'])
      const of = request(['2001:db8::/126', '2001:db8::8/126'], { reserved })
      give(6, allocateIpv6s(db, { ...of, count: 1 }))
      expect(db.prepare('SELECT address FROM guest_addresses').pluck().all()).to.deep.equal(['2001:db8::2'])
      const rest = allocateIpv6s(db, { ...of, count: 3 })
      expect(rest.sort()).to.deep.equal(['2001:db8::9', '2001:db8::a', '2001:db8::b'])
      expect(codeOf(() => allocateIpv6s(db, { ...of, count: 4 }))).to.equal('resource_exhausted')
    })

    it('returns explicit addresses in canonical form', () => {
      const of = request(['2001:db8::/64'], { addresses: ['2001:DB8:0:0::00A'] })
      expect(allocateIpv6s(db, of)).to.deep.equal(['2001:db8::a'])
    })

    for (const [name, change, code] of [
      ['an address outside the prefixes', { addresses: ['2001:db8:1::1'] }, 'invalid_field'],
      ['the network address of a prefix', { addresses: ['2001:db8::'] }, 'invalid_field'],
      ['a reserved address', { addresses: ['2001:db8::1'], reserved: new Set(['2001:db8::1']) }, 'invalid_field'],
      ["another guest's address", { addresses: ['2001:db8::5'] }, 'address_in_use'],
      ['any address if the host has no prefix', { count: 1, sources: [] }, 'resource_exhausted'],
    ] as const)
      it(`refuses ${name}`, () => {
        give(6, ['2001:db8::5'])
        expect(codeOf(() => allocateIpv6s(db, request(['2001:db8::/64'], change)))).to.equal(code)
      })

    it('never assigns an address that a port mapping uses', () => {
      name('2001:db8::1')
      const of = request(['2001:db8::/126'])
      expect(codeOf(() => allocateIpv6s(db, { ...of, addresses: ['2001:db8::1'] }))).to.equal('address_in_use')
      expect(allocateIpv6s(db, { ...of, count: 2 }).sort()).to.deep.equal(['2001:db8::2', '2001:db8::3'])
    })

    it('returns no address if no address is requested, even if the host has no IPv6', () => {
      expect(allocateIpv6s(db, request([]))).to.deep.equal([])
    })
  })
})
