import { expect } from 'chai'
import { parseIfInet6 } from '../../host/net/ipv6-addresses.js'
import { parseIpv6Network } from './ipv6.js'
import { findSource, planIpv6, type Ipv6Facts } from './plan-ipv6.js'
import type { Ipv6Prefix } from './pool.js'

const row = (address: string, length: string, device: string, rest = '00 80'): string =>
  `${address} 02 ${length} ${rest} ${device}`
const own64 = row('20010db8000100000000000000000001', '40', 'eth0')
const own128 = row('20010db8000100000000000000000001', '80', 'eth0')
const lo = row('00000000000000000000000000000001', '80', 'lo', '10 80')
const link = row('fe800000000000000000000000000001', '40', 'eth0', '20 80')

const facts = (rows: string[], change: Partial<Ipv6Facts> = {}): Ipv6Facts => ({
  configured: [],
  addresses: parseIfInet6(rows.join('\n')),
  interfaces: ['lo', 'eth0', 'eth1', 'berth0'],
  held: [],
  isUsed: () => true,
  defaultRoute: { interface: 'eth0', gateway: 'fe80::ff' },
  uplink: { interface: 'eth0', gateway: 'fe80::ff' },
  subnet6: parseIpv6Network('fd62:6572:7468::/64')!,
  bridge: 'berth0',
  ...change,
})
const set = (prefix: string, prefixLen: number, device = 'eth0'): Ipv6Prefix => ({
  interface: device,
  address: '',
  prefix,
  prefixLen,
  gateway: '',
})

describe('the choice of IPv6 prefixes for guests', () => {
  for (const [name, of, sources, reason] of [
    [
      'finds no source of addresses if the kernel has no IPv6',
      facts([], { addresses: undefined }),
      [],
      'the kernel of the host does not support IPv6',
    ],
    [
      'finds no source of addresses if the host has only a link-local address',
      facts([lo, link]),
      [],
      'the host has no global IPv6 address',
    ],
    [
      'finds no source of addresses if the host has no default route',
      facts([own64], { defaultRoute: undefined }),
      [],
      'the host has no IPv6 default route, and no prefix is set',
    ],
    [
      'proxies the addresses of a /64 prefix that the uplink has',
      facts([lo, link, own64]),
      ['proxied 2001:db8:1::/64'],
      'guests get IPv6 addresses from the prefix that was found on the interface eth0',
    ],
    [
      'uses NAT66 if the host has an IPv6 address but no prefix for guests',
      facts([own128]),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: the guests share the address through NAT66',
    ],
    [
      'uses NAT66 if the default route leads through a virtual interface',
      facts([own64], { uplink: undefined }),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: the guests share the address through NAT66; the prefix ' +
        'of eth0 is not used automatically, because any program can create a virtual interface like this one: set the ' +
        'prefix (PUT /routing), or name the interface in network.uplinks',
    ],
    [
      'keeps a detected prefix if the default route no longer uses its interface',
      facts([own64, row('20010db8000200000000000000000001', '40', 'eth1')], {
        held: [set('2001:db8:2::', 64, 'eth1')],
      }),
      ['proxied 2001:db8:2::/64'],
      'guests get IPv6 addresses from the prefix that was found on the interface eth1',
    ],
    [
      'reports a detected prefix as missing if it has disappeared and guests have addresses from it',
      facts([own64], { held: [set('2001:db8:2::', 64)] }),
      ['proxied 2001:db8:1::/64', 'missing 2001:db8:2::/64'],
      'guests get IPv6 addresses from the prefix that was found on the interface eth0; the IPv6 prefix 2001:db8:2::/64 of eth0, from which guests have addresses, no longer exists',
    ],
    [
      'forgets a detected prefix if it has disappeared and no guest has an address from it',
      facts([own64], { held: [set('2001:db8:2::', 64)], isUsed: () => false }),
      ['proxied 2001:db8:1::/64'],
      'guests get IPv6 addresses from the prefix that was found on the interface eth0',
    ],
    [
      'ignores a detected prefix if other prefixes are configured',
      facts([own64], { held: [set('2001:db8:1::', 64)], configured: [set('2001:db8:8000::', 48)] }),
      ['routed 2001:db8:8000::/48'],
      '',
    ],
    [
      'uses NAT66 if the uplink’s segment has only a few addresses',
      facts([row('20010db8000100000000000000000001', '78', 'eth0')]),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: the guests share the address through NAT66',
    ],
    [
      'uses NAT66 if only an interface other than the uplink has a prefix',
      facts([own128, row('20010db8000200000000000000000001', '40', 'eth1')]),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: the guests share the address through NAT66',
    ],
    [
      'finds no source of addresses if the host has only temporary privacy addresses',
      facts([row('20010db8000100000000000000000009', '40', 'eth0', '00 01')]),
      [],
      'the host has no global IPv6 address',
    ],
    [
      'ignores an address that failed duplicate address detection',
      facts([row('20010db8000100000000000000000001', '40', 'eth0', '00 48')]),
      [],
      'the host has no global IPv6 address',
    ],
    [
      'routes a configured prefix that is not on a segment of the host',
      facts([own64], { configured: [set('2001:db8:8000::', 48)] }),
      ['routed 2001:db8:8000::/48'],
      '',
    ],
    [
      'proxies the addresses of a configured prefix that is part of its interface’s segment',
      facts([own64], { configured: [set('2001:db8:1::f00', 120)] }),
      ['proxied 2001:db8:1::f00/120'],
      '',
    ],
    [
      'routes a configured prefix that is part of another interface’s segment',
      facts([own64], { configured: [set('2001:db8:1::f00', 120, 'eth1')] }),
      ['routed 2001:db8:1::f00/120'],
      '',
    ],
    [
      'reports a configured prefix as missing if its interface does not exist, and uses the other prefixes',
      facts([own64], { configured: [set('2001:db8:8::', 48, 'eth7'), set('2001:db8:9::', 48)] }),
      ['missing 2001:db8:8::/48', 'routed 2001:db8:9::/48'],
      'IPv6 prefixes are configured for eth7, which does not exist',
    ],
    [
      'routes a configured prefix that is larger than the segment of its interface',
      facts([own64], { configured: [set('2001:db8::', 32)] }),
      ['routed 2001:db8::/32'],
      '',
    ],
  ] as const)
    it(name, () => {
      const plan = planIpv6(of)
      const shown = plan.sources.map(
        ({ mode, prefix, isMissing }) => `${isMissing ? 'missing' : mode} ${prefix.prefix}/${prefix.prefixLen}`,
      )
      expect([shown, plan.reason]).to.deep.equal([sources, reason])
    })
})

describe('the IPv6 prefix of an address', () => {
  it('is the prefix that contains the address, or undefined if no prefix contains it', () => {
    const { sources } = planIpv6(facts([own64], { configured: [set('2001:db8:1::', 64), set('2001:db8:8000::', 48)] }))
    expect(findSource(sources, '2001:db8:8000:7::1')?.mode).to.equal('routed')
    expect(findSource(sources, '2001:db8:1::9')?.mode).to.equal('proxied')
    expect(findSource(sources, '2001:db8:2::9')).to.equal(undefined)
  })
})
