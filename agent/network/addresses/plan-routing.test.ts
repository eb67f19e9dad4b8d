import { expect } from 'chai'
import type { BerthError } from '../../../shared/errors.js'
import type { PortSpan } from '../ports.js'
import { parseIpv6Network } from './ipv6.js'
import type { Ipv6Mode, Ipv6Source } from './plan-ipv6.js'
import { checkNamedAddresses, checkPoolChange, checkPortsChange, checkSourcesChange } from './plan-routing.js'

const item = (address: string) => ({ address, interface: 'eth0', prefixLen: 32, gateway: '' })
const prefixOf = (prefix: string, prefixLen: number, more = {}) => ({
  interface: 'eth0',
  address: '',
  prefix,
  prefixLen,
  gateway: '',
  ...more,
})

function source(mode: Ipv6Mode, cidr: string): Ipv6Source {
  const network = parseIpv6Network(cidr)!
  return { mode, network, prefix: prefixOf(network.prefix, network.prefixLength) }
}

const span = (first: number, last = first): PortSpan => ({ protocol: 'tcp', hostIp: '', first, last })

function outcome(work: () => void): string {
  try {
    work()
  } catch (error) {
    const { code, message } = error as BerthError
    return `${code}: ${message}`
  }
  return 'allowed'
}

const may = (outcome: string): string => (outcome === 'allowed' ? 'may' : 'must not')

describe('a change of the IPv4 pool', () => {
  for (const [name, items, assigned, mapped, expected, elsewhere = []] of [
    ['add an address', ['203.0.113.1', '203.0.113.2'], ['203.0.113.1'], [], 'allowed'],
    ['remove an unused address', ['203.0.113.1'], ['203.0.113.1'], [], 'allowed'],
    ['empty a pool that no guest uses', [], [], ['203.0.113.9'], 'allowed'],
    [
      'remove an address that a guest has',
      ['203.0.113.2'],
      ['203.0.113.1'],
      [],
      '203.0.113.1 cannot be removed: it is assigned to a container',
    ],
    [
      'add an address that a port mapping uses',
      ['203.0.113.2'],
      [],
      ['203.0.113.2'],
      '203.0.113.2 cannot be assigned to containers',
    ],
    [
      'add an address that has moved to another host of its shared pool',
      ['203.0.113.1'],
      [],
      [],
      '203.0.113.1 belongs to another host',
      ['203.0.113.1'],
    ],
    ['omit the address of a guest that is arriving', [], ['203.0.113.1'], [], 'allowed', ['203.0.113.1']],
  ] as [string, string[], string[], string[], string, string[]?][])
    it(`${may(expected)} ${name}`, () => {
      const used = { assigned, elsewhere: new Set(elsewhere), mapped: new Set(mapped) }
      expect(outcome(() => checkPoolChange(items.map(item), used))).to.contain(expected)
    })
})

describe('a change of IPv6 prefixes', () => {
  const [found, routed] = [source('proxied', '2001:db8:1::/64'), source('routed', '2001:db8:2::/64')]
  const nat = source('nat66', 'fd62::/64')
  const half = source('routed', '2001:db8:1::/80')
  for (const [name, before, after, assigned, expected] of [
    ['add a prefix', [found], [found, routed], ['2001:db8:1::5'], 'allowed'],
    ['replace a prefix from which no guest has an address', [found], [routed], [], 'allowed'],
    [
      'replace a detected prefix from which a guest has an address',
      [found],
      [routed],
      ['2001:db8:1::5'],
      'address_in_use: 2001:db8:1::5',
    ],
    ['set the same prefix that was detected', [found], [{ ...found }], ['2001:db8:1::5'], 'allowed'],
    [
      'replace a configured prefix by a detected prefix that contains the address of a guest',
      [half],
      [found],
      ['2001:db8:1::5'],
      'allowed',
    ],
    [
      'keep only a part of a prefix if the part contains the address of a guest',
      [found],
      [half],
      ['2001:db8:1::5'],
      'allowed',
    ],
    [
      'keep only a part of a prefix if the part does not contain the address of a guest',
      [found],
      [half],
      ['2001:db8:1:0:5::5'],
      'address_in_use',
    ],
    ['remove a prefix from which a guest has an address', [routed], [], ['2001:db8:2::5'], 'address_in_use'],
    ['set a first prefix while guests use NAT66', [nat], [routed], ['fd62::5'], 'allowed'],
    [
      'remove a prefix if the only address of a guest was already outside all prefixes',
      [routed],
      [],
      ['2001:db8:9::5'],
      'allowed',
    ],
  ] as [string, Ipv6Source[], Ipv6Source[], string[], string][])
    it(`${may(expected)} ${name}`, () =>
      expect(outcome(() => checkSourcesChange({ before, after }, assigned))).to.contain(expected))

  for (const [name, more, expected] of [
    ['set an unused address as the address of the host', { address: '2001:db8:1::1', gateway: 'fe80::1' }, 'allowed'],
    [
      'set the address of a guest as the address of the host',
      { address: '2001:db8:1::5' },
      'address_in_use: 2001:db8:1::5',
    ],
    [
      'set the address of a guest as the address of the router',
      { gateway: '2001:db8:1::5' },
      'address_in_use: 2001:db8:1::5',
    ],
  ] as const)
    it(`${may(expected)} ${name}`, () => {
      const prefixes = [prefixOf('2001:db8:1::', 64, more)]
      expect(outcome(() => checkNamedAddresses(prefixes, ['2001:db8:1::5']))).to.contain(expected)
    })
})

describe('a change of the range of host ports', () => {
  for (const [name, mapped, expected] of [
    ['if no port is mapped', [], 'allowed'],
    ['if ports at both ends of the new range are mapped', [span(30_000), span(30_990, 30_999)], 'allowed'],
    [
      'if a port below the new range is mapped',
      [span(29_999)],
      'port_conflict: the port range must include tcp port 29999 of the host',
    ],
    ['if a port above the new range is mapped', [span(31_000)], 'port_conflict'],
    [
      'if a mapped range begins below the new range',
      [span(29_990, 30_005)],
      'port_conflict: the port range must include tcp ports 29990-30005 of the host',
    ],
    ['if a mapped range ends above the new range', [span(30_990, 31_000)], 'port_conflict'],
  ] as [string, PortSpan[], string][])
    it(`is ${expected === 'allowed' ? 'allowed' : 'refused'} ${name}`, () =>
      expect(outcome(() => checkPortsChange({ start: 30_000, end: 30_999 }, mapped))).to.contain(expected))
})
