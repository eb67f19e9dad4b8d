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
  it('has defaults: the uplink, and a single address', () => {
    expect(
      parsePool([item({}), item({ address: '203.0.113.6', interface: 'eth1.100', prefixLen: 29 })], rules),
    ).to.deep.equal([
      { address: '203.0.113.5', interface: 'eth0', prefixLen: 32, gateway: '' },
      { address: '203.0.113.6', interface: 'eth1.100', prefixLen: 29, gateway: '' },
    ])
  })

  for (const [name, items, field] of [
    ['no address', [item({ address: '203.0.113' })], 'items.0.address'],
    ['IPv6', [item({ address: '2001:db8::1' })], 'items.0.address'],
    ['an octet with a zero', [item({ address: '203.0.113.05' })], 'items.0.address'],
    ['loopback', [item({ address: '127.0.0.2' })], 'items.0.address'],
    ['link-local', [item({ address: '169.254.1.1' })], 'items.0.address'],
    ['multicast', [item({ address: '224.0.0.1' })], 'items.0.address'],
    ["the host's own", [item({ address: '198.51.100.1' })], 'items.0.address'],
    ["a broadcast address of the host's", [item({ address: '198.51.100.255' })], 'items.0.address'],
    ["the host's gateway", [item({ address: '198.51.100.254' })], 'items.0.address'],
    ["another item's gateway", [item({ gateway: '203.0.113.6' }), item({ address: '203.0.113.6' })], 'items.1.address'],
    ['its own gateway', [item({ gateway: '203.0.113.5' })], 'items.0.address'],
    ["of the guests' network", [item({ address: '10.64.255.255' })], 'items.0.address'],
    ['twice', [item({}), item({})], 'items.1.address'],
    ['another interface', [item({ interface: 'eth9' })], 'items.0.interface'],
    ['an argument as interface', [item({ interface: 'eth0 up' })], 'items.0.interface'],
    ['prefix of 33', [item({ prefixLen: 33 })], 'items.0.prefix_len'],
    ['gateway of words', [item({ gateway: 'router' })], 'items.0.gateway'],
  ] as const)
    it(`refuses: ${name}`, () => expect(fieldOf(() => parsePool(items, rules))).to.equal(field))
})

describe('IPv6 prefixes', () => {
  it('use the interface of the default route by default', () => {
    const [first, second] = parsePrefixes([prefix({ interface: '' }), prefix({ prefix: '2001:db8:2::' })], rules)
    expect([first!.interface, second!.interface]).to.deep.equal(['eth1.100', 'eth0'])
  })

  it('become canonical', () => {
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
    it(`may be /${prefixLen}`, () => expect(parsePrefixes([prefix({ prefixLen })], rules)).to.have.length(1))

  for (const [name, items, field] of [
    ['host bits', [prefix({ prefix: '2001:db8:1::1' })], 'ipv6_prefixes.0.prefix'],
    ['IPv4', [prefix({ prefix: '203.0.113.0', prefixLen: 24 })], 'ipv6_prefixes.0.prefix'],
    ['link-local', [prefix({ prefix: 'fe80::' })], 'ipv6_prefixes.0.prefix'],
    ['multicast', [prefix({ prefix: 'ff02::' })], 'ipv6_prefixes.0.prefix'],
    ['of NAT66', [prefix({ prefix: 'fd62:6572:7468::' })], 'ipv6_prefixes.0.prefix'],
    ['/127', [prefix({ prefixLen: 127 })], 'ipv6_prefixes.0.prefix_len'],
    ['/0', [prefix({ prefixLen: 0 })], 'ipv6_prefixes.0.prefix_len'],
    ['address of another', [prefix({ address: '2001:db8:2::1' })], 'ipv6_prefixes.0.address'],
    ['a zone', [prefix({ gateway: 'fe80::1%eth0' })], 'ipv6_prefixes.0.gateway'],
    ['overlap', [prefix({}), prefix({ prefix: '2001:db8:1::f00', prefixLen: 120 })], 'ipv6_prefixes.1.prefix'],
  ] as const)
    it(`refuses: ${name}`, () => expect(fieldOf(() => parsePrefixes(items, rules))).to.equal(field))
})
