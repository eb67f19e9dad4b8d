import { expect } from 'chai'
import type { Guest } from '../api/types.ts'
import {
  extendedExpiry,
  filterGuests,
  isExpiring,
  matcherOf,
  noFilter,
  planBulk,
  sortGuests,
  timeBounds,
} from './filter.ts'
import { createZonedTime } from '../ui/zoned-time.ts'

const guest = (fields: Partial<Guest>): Guest =>
  ({
    id: 7,
    uuid: '0b1c',
    name: 'web-1',
    ip: '10.64.0.7',
    public_ipv4s: [],
    ipv6_addresses: [],
    status: 'running',
    expires_at: '',
    host_id: 'a',
    virtualization: 'lxc',
    template: 'debian-12',
    port_mappings: [],
    tags: [],
    ...fields,
  }) as unknown as Guest

const ports = [
  { host_port: 20_022, container_port: 22, protocol: 'tcp', description: '' },
  {
    host_port: 30_000,
    host_port_end: 30_010,
    container_port: 1,
    protocol: 'tcp',
    description: '',
    host_ip: '203.0.113.7',
  },
] as Guest['port_mappings']

describe('the search for a guest by name, id, address or port', () => {
  const web = guest({ port_mappings: ports, public_ipv4s: ['198.51.100.9'], ipv6_addresses: ['2001:db8::7'] })
  for (const [text, found] of [
    ['WEB', true],
    ['web 10.64', true],
    ['web 10.65', false],
    ['#7', true],
    ['20022', true],
    [':20022', true],
    ['30005', true],
    ['30011', false],
    ['203.0.113.7:30005', true],
    ['203.0.113.8:30005', false],
    ['203.0.113.8:20022', true],
    ['198.51.100.9', true],
    ['198.51.100.9:22', true],
    ['198.51.100.8:22', false],
    ['10.64.0.7:80', true],
    ['[2001:db8::7]:22', true],
    ['[2001:db8::8]:22', false],
    ['2001:db8::7', true],
    ['0b1c', true],
    ['', true],
  ] as const)
    it(`${found ? 'finds' : 'does not find'} the guest by the text "${text}"`, () =>
      expect(matcherOf(text)(web)).to.equal(found))
})

describe('the guest list', () => {
  const now = timeBounds(Date.UTC(2026, 10, 23, 12), createZonedTime('UTC').format)
  const all = [
    guest({ id: 1, name: 'a10', status: 'stopped', expires_at: '2026-11-25 00:00:00' }),
    guest({ id: 2, name: 'a9', host_id: 'b', expires_at: '2026-11-20 00:00:00' }),
    guest({ id: 3, name: 'b', policy_blocked: true, expires_at: '2027-11-25 00:00:00' }),
  ]
  const ids = (filter: object): number[] => filterGuests(all, { ...noFilter, ...filter }, now).map(({ id }) => id)

  it('can be filtered by state, host and need for attention', () => {
    expect(ids({})).to.deep.equal([1, 2, 3])
    expect(ids({ status: 'stopped' })).to.deep.equal([1])
    expect(ids({ host: 'b' })).to.deep.equal([2])
    expect(ids({ flag: 'expiring' })).to.deep.equal([1])
    expect(ids({ flag: 'expired' })).to.deep.equal([2])
    expect(ids({ flag: 'blocked' })).to.deep.equal([3])
    expect(ids({ text: 'a', status: 'running' })).to.deep.equal([2])
  })

  it('sorts numbers in names by their value, and lists guests without an expiry at the end', () => {
    const names = (key: 'name' | 'expires_at', descending = false): string[] =>
      sortGuests([...all, guest({ name: 'never' })], { key, descending }).map(({ name }) => name)
    expect(names('name')).to.deep.equal(['a9', 'a10', 'b', 'never'])
    expect(names('name', true)).to.deep.equal(['never', 'b', 'a10', 'a9'])
    expect(names('expires_at').at(-1)).to.equal('never')
  })

  it('sorts addresses by the value of their numbers', () => {
    const guests = ['203.0.113.10', '203.0.113.9', ''].map((address) =>
      guest({ name: address, ip: '', public_ipv4s: address === '' ? [] : [address] }),
    )
    const sorted = sortGuests(guests, { key: 'address', descending: false })
    expect(sorted.map(({ name }) => name)).to.deep.equal(['203.0.113.9', '203.0.113.10', ''])
  })

  it('shows which guests a bulk action would change', () => {
    const { changed, unchanged } = planBulk(all, 'start')
    expect([changed.length, unchanged.length]).to.deep.equal([1, 2])
    expect(planBulk(all, 'stop').changed).to.have.length(2)
  })

  it('limits the bulk action “extend” to guests with an expiry, and “snapshot” to guests with a snapshot quota above 0', () => {
    const guests = [guest({ expires_at: '2026-12-01 00:00:00', snapshot_limit: 0 }), guest({ snapshot_limit: 3 })]
    expect(planBulk(guests, 'extend').changed).to.deep.equal([guests[0]])
    expect(planBulk(guests, 'snapshot').changed).to.deep.equal([guests[1]])
  })

  it('can be sorted by host name, owner and size', () => {
    const a = guest({ name: 'a', host_id: 'h-2', ram_mb: 512, owners: [{ id: '1', username: 'zoe' }] })
    const b = guest({ name: 'b', host_id: 'h-1', ram_mb: 4096, owners: [{ id: '2', username: 'ada' }] })
    const first = (key: 'host' | 'owner' | 'memory') =>
      sortGuests([a, b], { key, descending: false }, (id) => (id === 'h-2' ? 'fra1' : 'nbg1'))[0]?.name
    expect([first('host'), first('owner'), first('memory')]).to.deep.equal(['a', 'b', 'a'])
  })
})

describe('an extended expiry', () => {
  const now = '2026-11-27 12:00:00'
  for (const [name, expiry, days, expected] of [
    ['is counted from the present expiry', '2026-12-31 23:59:59', 30, '2027-01-30 23:59:59'],
    ['is counted from now if the guest has expired', '2026-01-01 00:00:00', 1, '2026-11-28 12:00:00'],
  ] as const)
    it(name, () => expect(extendedExpiry(expiry, days, now)).to.equal(expected))
})

describe('a guest expires soon', () => {
  const bounds = { nowText: '2026-03-01 12:00:00', soonText: '2026-03-08 12:00:00' }
  for (const [expiry, soon] of [
    ['', false],
    ['2026-03-01 12:00:00', false],
    ['2026-03-01 12:00:01', true],
    ['2026-03-08 12:00:00', true],
    ['2026-03-08 12:00:01', false],
  ] as const)
    it(`${soon ? 'at' : 'not at'} ${expiry || 'no time'}`, () => expect(isExpiring(expiry, bounds)).to.equal(soon))
})
