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

describe('a change of the IPv4 pool', () => {
  for (const [name, items, assigned, mapped, expected] of [
    ['more', ['203.0.113.1', '203.0.113.2'], ['203.0.113.1'], [], 'allowed'],
    ['without an unused address', ['203.0.113.1'], ['203.0.113.1'], [], 'allowed'],
    ['empty, without used addresses', [], [], ['203.0.113.9'], 'allowed'],
    ['without a guest’s address', ['203.0.113.2'], ['203.0.113.1'], [], '203.0.113.1 is assigned to a container'],
    ['with an address of a mapping', ['203.0.113.2'], [], ['203.0.113.2'], '203.0.113.2 is used as host_ip'],
  ] as [string, string[], string[], string[], string][])
    it(name, () => {
      const used = { assigned, mapped: new Set(mapped) }
      expect(outcome(() => checkPoolChange(items.map(item), used))).to.contain(expected)
    })
})

describe('a change of IPv6 prefixes', () => {
  const [found, routed] = [source('proxied', '2001:db8:1::/64'), source('routed', '2001:db8:2::/64')]
  const nat = source('nat66', 'fd62::/64')
  const half = source('routed', '2001:db8:1::/80')
  for (const [name, before, after, assigned, expected] of [
    ['one more', [found], [found, routed], ['2001:db8:1::5'], 'allowed'],
    ['another one, without used addresses', [found], [routed], [], 'allowed'],
    ['a configured instead of a detected one', [found], [routed], ['2001:db8:1::5'], 'address_in_use: 2001:db8:1::5'],
    ['a configured one that equals the detected one', [found], [{ ...found }], ['2001:db8:1::5'], 'allowed'],
    ['a detected instead of a configured one', [half], [found], ['2001:db8:1::5'], 'allowed'],
    ['a part that contains the address', [found], [half], ['2001:db8:1::5'], 'allowed'],
    ['a part that does not contain the address', [found], [half], ['2001:db8:1:0:5::5'], 'address_in_use'],
    ['none left', [routed], [], ['2001:db8:2::5'], 'address_in_use'],
    ['a first one while guests share the host’s', [nat], [routed], ['fd62::5'], 'allowed'],
    ['for addresses that had no prefix before', [routed], [], ['2001:db8:9::5'], 'allowed'],
  ] as [string, Ipv6Source[], Ipv6Source[], string[], string][])
    it(name, () => expect(outcome(() => checkSourcesChange({ before, after }, assigned))).to.contain(expected))

  for (const [name, more, expected] of [
    ['names an unused address', { address: '2001:db8:1::1', gateway: 'fe80::1' }, 'allowed'],
    ['names a guest’s as the host’s', { address: '2001:db8:1::5' }, 'address_in_use: 2001:db8:1::5'],
    ['names a guest’s as the router', { gateway: '2001:db8:1::5' }, 'address_in_use: 2001:db8:1::5'],
  ] as const)
    it(name, () => {
      const prefixes = [prefixOf('2001:db8:1::', 64, more)]
      expect(outcome(() => checkNamedAddresses(prefixes, ['2001:db8:1::5']))).to.contain(expected)
    })
})

describe('a change of the range of host ports', () => {
  for (const [name, mapped, expected] of [
    ['nothing mapped', [], 'allowed'],
    ['both ends mapped', [span(30_000), span(30_990, 30_999)], 'allowed'],
    ['a port below', [span(29_999)], 'port_conflict: tcp port 29999: used by a mapping'],
    ['a port above', [span(31_000)], 'port_conflict'],
    ['a range that begins below', [span(29_990, 30_005)], 'port_conflict: tcp ports 29990-30005: used by a mapping'],
    ['a range that ends above', [span(30_990, 31_000)], 'port_conflict'],
  ] as [string, PortSpan[], string][])
    it(name, () => expect(outcome(() => checkPortsChange({ start: 30_000, end: 30_999 }, mapped))).to.contain(expected))
})
