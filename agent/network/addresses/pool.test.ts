import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { parseSubnet } from '../subnet.js'
import { parseIpv6Network } from './ipv6.js'
import { parsePool, parsePrefixes, type Ipv6Prefix, type PoolAddress, type PoolRules } from './pool.js'

const rules: PoolRules = {
  interfaces: new Set(['eth0', 'eth1.100']),
  defaultInterfaces: { ipv4: 'eth0', ipv6: 'eth1.100' },
  ownAddresses: new Set(['198.51.100.1']),
  gateway: '198.51.100.254',
  edges: new Map([['198.51.100.255', 'broadcast address of 198.51.100.0/24']]),
  subnet: parseSubnet('10.64.0.0/16'),
  subnet6: parseIpv6Network('fd62:6572:7468::/64')!,
}

const item = (change: Partial<PoolAddress>): PoolAddress => ({
  address: '203.0.113.5',
  interface: '',
  prefixLen: 0,
  gateway: '',
  ...change,
})
const prefix = (change: Partial<Ipv6Prefix>): Ipv6Prefix => ({
  interface: 'eth0',
  address: '',
  prefix: '2001:db8:1::',
  prefixLen: 64,
  gateway: '',
  ...change,
})

function fieldOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    expect(error).to.be.instanceOf(BerthError)
    return (error as BerthError).field ?? ''
  }
  return 'accepted'
}

describe('a public IPv4 pool', () => {
  it('assigns the uplink’s interface and the prefix length 32 to an address by default', () => {
    expect(
      parsePool([item({}), item({ address: '203.0.113.6', interface: 'eth1.100', prefixLen: 29 })], rules),
    ).to.deep.equal([
      { address: '203.0.113.5', interface: 'eth0', prefixLen: 32, gateway: '' },
      { address: '203.0.113.6', interface: 'eth1.100', prefixLen: 29, gateway: '' },
    ])
  })

  for (const [name, items, field] of [
    ['text that is not an address', [item({ address: '203.0.113' })], 'items.0.address'],
    ['an IPv6 address', [item({ address: '2001:db8::1' })], 'items.0.address'],
    ['an octet with a leading zero', [item({ address: '203.0.113.05' })], 'items.0.address'],
    ['a loopback address', [item({ address: '127.0.0.2' })], 'items.0.address'],
    ['a link-local address', [item({ address: '169.254.1.1' })], 'items.0.address'],
    ['a multicast address', [item({ address: '224.0.0.1' })], 'items.0.address'],
    ["the host's own address", [item({ address: '198.51.100.1' })], 'items.0.address'],
    ["the broadcast address of a host's segment", [item({ address: '198.51.100.255' })], 'items.0.address'],
    ["the address of the host's gateway", [item({ address: '198.51.100.254' })], 'items.0.address'],
    [
      'an address that another entry of the pool names as gateway',
      [item({ gateway: '203.0.113.6' }), item({ address: '203.0.113.6' })],
      'items.1.address',
    ],
    ['an address that is its own gateway', [item({ gateway: '203.0.113.5' })], 'items.0.address'],
    ["an address of the guests' private network", [item({ address: '10.64.255.255' })], 'items.0.address'],
    ['an address that is listed twice', [item({}), item({})], 'items.1.address'],
    ['an interface that the host does not have', [item({ interface: 'eth9' })], 'items.0.interface'],
    ['an interface name with a blank and a further argument', [item({ interface: 'eth0 up' })], 'items.0.interface'],
    ['a prefix length of 33', [item({ prefixLen: 33 })], 'items.0.prefix_len'],
    ['a gateway that is not an address', [item({ gateway: 'router' })], 'items.0.gateway'],
  ] as const)
    it(`refuses ${name}`, () => expect(fieldOf(() => parsePool(items, rules))).to.equal(field))
})

describe('IPv6 prefixes', () => {
  it('use the interface of the default route by default', () => {
    const [first, second] = parsePrefixes([prefix({ interface: '' }), prefix({ prefix: '2001:db8:2::' })], rules)
    expect([first!.interface, second!.interface]).to.deep.equal(['eth1.100', 'eth0'])
  })

  it('are returned in canonical form', () => {
    const sent = prefix({ prefix: '2001:DB8:1:0::', address: '2001:0db8:1::2', gateway: 'FE80::1' })
    expect(parsePrefixes([sent], rules)).to.deep.equal([
      {
        interface: 'eth0',
        address: '2001:db8:1::2',
        prefix: '2001:db8:1::',
        prefixLen: 64,
        gateway: 'fe80::1',
      },
    ])
  })

  for (const prefixLen of [48, 56, 80, 112, 120, 126])
    it(`can have a length of /${prefixLen}`, () =>
      expect(parsePrefixes([prefix({ prefixLen })], rules)).to.have.length(1))

  for (const [name, items, field] of [
    ['if bits after the prefix length are set', [prefix({ prefix: '2001:db8:1::1' })], 'ipv6_prefixes.0.prefix'],
    ['if they are IPv4 prefixes', [prefix({ prefix: '203.0.113.0', prefixLen: 24 })], 'ipv6_prefixes.0.prefix'],
    ['if their addresses are link-local', [prefix({ prefix: 'fe80::' })], 'ipv6_prefixes.0.prefix'],
    ['if their addresses are multicast', [prefix({ prefix: 'ff02::' })], 'ipv6_prefixes.0.prefix'],
    [
      'if they overlap the private network for NAT66',
      [prefix({ prefix: 'fd62:6572:7468::' })],
      'ipv6_prefixes.0.prefix',
    ],
    ['if their length is /127', [prefix({ prefixLen: 127 })], 'ipv6_prefixes.0.prefix_len'],
    ['if their length is /0', [prefix({ prefixLen: 0 })], 'ipv6_prefixes.0.prefix_len'],
    [
      'if the address of the host is outside the prefix',
      [prefix({ address: '2001:db8:2::1' })],
      'ipv6_prefixes.0.address',
    ],
    ['if the address of the gateway contains a zone', [prefix({ gateway: 'fe80::1%eth0' })], 'ipv6_prefixes.0.gateway'],
    [
      'if they overlap each other',
      [prefix({}), prefix({ prefix: '2001:db8:1::f00', prefixLen: 120 })],
      'ipv6_prefixes.1.prefix',
    ],
  ] as const)
    it(`are refused ${name}`, () => expect(fieldOf(() => parsePrefixes(items, rules))).to.equal(field))
})
