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

describe('IPv6 of the host', () => {
  for (const [name, of, sources, reason] of [
    ['no IPv6 in the kernel', facts([], { addresses: undefined }), [], 'the kernel of the host has no IPv6'],
    ['only a link-local address', facts([lo, link]), [], 'the host has no global IPv6 address'],
    [
      'no default route',
      facts([own64], { defaultRoute: undefined }),
      [],
      'the host has no IPv6 default route, and no prefix is set',
    ],
    ['a /64 on the uplink', facts([lo, link, own64]), ['proxied 2001:db8:1::/64'], 'prefix found on eth0'],
    [
      'an address without a prefix',
      facts([own128]),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: they share it through NAT66',
    ],
    [
      'a prefix on a virtual default route',
      facts([own64], { uplink: undefined }),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: they share it through NAT66; the prefix of eth0 is not ' +
        'used automatically, since any program can create such an interface: set it (PUT /routing), or name the ' +
        'interface in network.uplinks',
    ],
    [
      'a detected prefix on an interface without the present default route',
      facts([own64, row('20010db8000200000000000000000001', '40', 'eth1')], {
        held: [set('2001:db8:2::', 64, 'eth1')],
      }),
      ['proxied 2001:db8:2::/64'],
      'prefix found on eth1',
    ],
    [
      'a detected prefix that disappeared, with addresses of guests',
      facts([own64], { held: [set('2001:db8:2::', 64)] }),
      ['proxied 2001:db8:1::/64', 'missing 2001:db8:2::/64'],
      'prefix found on eth0; the IPv6 prefix 2001:db8:2::/64 of eth0, from which guests have addresses, no longer exists',
    ],
    [
      'a detected prefix that disappeared, without addresses of guests',
      facts([own64], { held: [set('2001:db8:2::', 64)], isUsed: () => false }),
      ['proxied 2001:db8:1::/64'],
      'prefix found on eth0',
    ],
    [
      'a detected prefix, with other prefixes set',
      facts([own64], { held: [set('2001:db8:1::', 64)], configured: [set('2001:db8:8000::', 48)] }),
      ['routed 2001:db8:8000::/48'],
      '',
    ],
    [
      'a segment with few addresses',
      facts([row('20010db8000100000000000000000001', '78', 'eth0')]),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: they share it through NAT66',
    ],
    [
      'only a prefix on another interface',
      facts([own128, row('20010db8000200000000000000000001', '40', 'eth1')]),
      ['nat66 fd62:6572:7468::/64'],
      'the host has an IPv6 address but no prefix for guests: they share it through NAT66',
    ],
    [
      'only privacy addresses',
      facts([row('20010db8000100000000000000000009', '40', 'eth0', '00 01')]),
      [],
      'the host has no global IPv6 address',
    ],
    [
      'a duplicate',
      facts([row('20010db8000100000000000000000001', '40', 'eth0', '00 48')]),
      [],
      'the host has no global IPv6 address',
    ],
    [
      'a prefix that is routed to the host',
      facts([own64], { configured: [set('2001:db8:8000::', 48)] }),
      ['routed 2001:db8:8000::/48'],
      '',
    ],
    [
      'a part of the segment',
      facts([own64], { configured: [set('2001:db8:1::f00', 120)] }),
      ['proxied 2001:db8:1::f00/120'],
      '',
    ],
    [
      'the same, on another interface',
      facts([own64], { configured: [set('2001:db8:1::f00', 120, 'eth1')] }),
      ['routed 2001:db8:1::f00/120'],
      '',
    ],
    [
      'a prefix on a missing interface, and one on an existing interface',
      facts([own64], { configured: [set('2001:db8:8::', 48, 'eth7'), set('2001:db8:9::', 48)] }),
      ['missing 2001:db8:8::/48', 'routed 2001:db8:9::/48'],
      'IPv6 prefixes are configured for eth7, which does not exist',
    ],
    ['more than the segment', facts([own64], { configured: [set('2001:db8::', 32)] }), ['routed 2001:db8::/32'], ''],
  ] as const)
    it(name, () => {
      const plan = planIpv6(of)
      const shown = plan.sources.map(
        ({ mode, prefix, isMissing }) => `${isMissing ? 'missing' : mode} ${prefix.prefix}/${prefix.prefixLen}`,
      )
      expect([shown, plan.reason]).to.deep.equal([sources, reason])
    })

  it('finds the prefix of an address', () => {
    const { sources } = planIpv6(facts([own64], { configured: [set('2001:db8:1::', 64), set('2001:db8:8000::', 48)] }))
    expect(findSource(sources, '2001:db8:8000:7::1')?.mode).to.equal('routed')
    expect(findSource(sources, '2001:db8:1::9')?.mode).to.equal('proxied')
    expect(findSource(sources, '2001:db8:2::9')).to.equal(undefined)
  })
})
