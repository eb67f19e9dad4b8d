import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from '../../../../shared/errors.js'
import type { GuestNetwork, NatMapping } from '../../contract.js'
import { planGuest } from './plan-guest.js'

const one: GuestNetwork = {
  uuid: 'uuid-1',
  device: 'bt1',
  mac: '02:be:00:00:00:01',
  ipv4: '10.64.0.2',
  portMappings: [],
  publicIpv4s: [],
  ipv6Addresses: [],
}
const tcp: NatMapping = {
  protocol: 'tcp',
  hostIp: '',
  hostPort: 20001,
  hostPortEnd: 20001,
  containerPort: 22,
}
const [v6, other6] = ['2001:db8::2', '2001:db8::3']
const base = {
  'guests "bt1" . 02:be:00:00:00:01 . 10.64.0.2': '',
  'owners 10.64.0.2': 'a40:2',
  'received a40:2': '',
  'sent 02:be:00:00:00:01': '',
  'self 10.64.0.2 . 10.64.0.2': '',
}
const base6 = {
  'owners6 2001:db8::2': 'a40:2',
  ...Object.fromEntries(
    [
      'guests6 "bt1" . 02:be:00:00:00:01 . 2001:db8::2',
      'self6 2001:db8::2 . 2001:db8::2',
      'guests6 "bt1" . 02:be:00:00:00:01 . ::',
      'guests6 "bt1" . 02:be:00:00:00:01 . fe80::be:ff:fe00:1',
      'solicitors "bt1" . 0x2be00000001',
    ].map((id) => [id, '']),
  ),
}

describe('the nft set elements of a guest', () => {
  for (const [name, more, elements] of [
    ['are only its identity and counters if it has no mappings, public addresses or firewall', {}, {}],
    ['contain one element for a mapped port', { portMappings: [tcp] }, { 'ports 6 . 20001': '10.64.0.2 . 22' }],
    [
      'contain the host address for a port that is mapped on only one host address',
      { portMappings: [{ ...tcp, hostIp: '192.0.2.9', protocol: 'udp' }] },
      { 'host_ports 192.0.2.9 . 17 . 20001': '10.64.0.2 . 22' },
    ],
    [
      'contain one element for a mapped range',
      { portMappings: [{ ...tcp, hostPort: 3000, hostPortEnd: 3999, containerPort: 3000 }] },
      { 'port_ranges 0.0.0.0/0 . 6 . 3000-3999': '10.64.0.2' },
    ],
    [
      'contain the host address for a range that is mapped on only one host address',
      {
        portMappings: [{ ...tcp, hostIp: '192.0.2.9', hostPort: 3000, hostPortEnd: 3999, containerPort: 3000 }],
      },
      { 'port_ranges 192.0.2.9 . 6 . 3000-3999': '10.64.0.2' },
    ],
    [
      'contain one element per port for a range that is mapped to other port numbers',
      { portMappings: [{ ...tcp, hostPortEnd: 20002 }] },
      { 'ports 6 . 20001': '10.64.0.2 . 22', 'ports 6 . 20002': '10.64.0.2 . 23' },
    ],
    [
      'lead packets for all public addresses to the guest, and make the first public address the source of its packets',
      { publicIpv4s: ['203.0.113.5', '203.0.113.6'] },
      {
        'public_in 203.0.113.5': '10.64.0.2',
        'public_in 203.0.113.6': '10.64.0.2',
        'public_out 10.64.0.2': '203.0.113.5',
      },
    ],
    ['allow its IPv6 address and its link-local address as source', { ipv6Addresses: [v6] }, base6],
    [
      "map ports also on the host's IPv6 addresses if the guest has an IPv6 address",
      { ipv6Addresses: [v6], portMappings: [tcp] },
      { ...base6, 'ports 6 . 20001': '10.64.0.2 . 22', 'ports6 6 . 20001': '2001:db8::2 . 22' },
    ],
    [
      'contain the IPv6 host address for a port that is mapped on only one IPv6 address of the host',
      { ipv6Addresses: [v6], portMappings: [{ ...tcp, hostIp: '2001:db8::ff' }] },
      { ...base6, 'host_ports6 2001:db8::ff . 6 . 20001': '2001:db8::2 . 22' },
    ],
    [
      'contain one IPv6 element for a range that is mapped on only one IPv6 address of the host',
      {
        ipv6Addresses: [v6],
        portMappings: [{ ...tcp, hostIp: '2001:db8::ff', hostPortEnd: 20009, containerPort: 20001 }],
      },
      { ...base6, 'port_ranges6 2001:db8::ff . 6 . 20001-20009': '2001:db8::2' },
    ],
    [
      'lead from each address of the guest to the chains of the guest’s firewall',
      { firewall: { enabled: true, defaultAction: 'DROP', rules: [] } },
      { 'firewall_in 10.64.0.2': 'jump in_bt1', 'firewall_out 10.64.0.2': 'jump out_bt1' },
    ],
    [
      'contain no firewall element if the firewall is off',
      { firewall: { enabled: false, defaultAction: 'DROP', rules: [] } },
      {},
    ],
  ] as [string, Partial<GuestNetwork>, Record<string, string>][])
    it(name, () => {
      const planned = Object.fromEntries(planGuest({ ...one, ...more }).elements)
      expect(planned).to.deep.equal({ ...base, ...elements })
    })

  it('allow no source address if the guest is disconnected, but still map its ports', () => {
    const whole = { ...one, ipv6Addresses: [v6], portMappings: [tcp] }
    const { elements } = planGuest({ ...whole, cut: true })
    const left = [...planGuest(whole).elements].filter(([id]) => !/^(guests6?|solicitors) /.test(id))
    expect([...elements]).to.deep.equal(left)
    expect([...elements.keys()]).to.include('ports 6 . 20001')
  })

  it('map ports to the first IPv6 address of a guest that has two IPv6 addresses', () => {
    const { elements } = planGuest({ ...one, ipv6Addresses: [v6, other6], portMappings: [tcp] })
    expect(elements.get('ports6 6 . 20001')).to.equal('2001:db8::2 . 22')
    expect([...elements.keys()]).to.include('self6 2001:db8::3 . 2001:db8::2')
  })

  const hostile = [
    'bt1"; flush ruleset; #',
    'bt1\nflush ruleset',
    '',
    'bt 1',
    '10.64.0.2/8',
    '10.64.0.256',
    '010.64.0.2',
    '02:be:00:00:00',
    '2001:DB8::2',
    '2001:db8:0:0::2',
    'fe80::1%eth0',
    '::ffff:10.64.0.2',
    '*',
  ]
  for (const value of hostile)
    it(`are refused if any of the guest’s fields is ${JSON.stringify(value)}`, () => {
      for (const field of ['device', 'mac', 'ipv4'])
        expect(() => planGuest({ ...one, [field]: value }), field).to.throw(BerthError)
      for (const field of ['publicIpv4s', 'ipv6Addresses'])
        expect(() => planGuest({ ...one, [field]: [value] }), field).to.throw(BerthError)
      if (value !== '')
        expect(() => planGuest({ ...one, portMappings: [{ ...tcp, hostIp: value }] })).to.throw(BerthError)
    })

  it('are refused if a mapping has an invalid port or range', () => {
    for (const bad of [0, -1, 65536, 1.5, NaN, Infinity, '22; flush ruleset' as unknown as number])
      for (const field of ['hostPort', 'hostPortEnd', 'containerPort'])
        expect(() => planGuest({ ...one, portMappings: [{ ...tcp, [field]: bad }] })).to.throw(BerthError)
    for (const range of [{ hostPortEnd: 20000 }, { hostPortEnd: 20001 + 100, containerPort: 65500 }])
      expect(() => planGuest({ ...one, portMappings: [{ ...tcp, ...range }] })).to.throw(BerthError)
  })

  it('are refused if the device, the MAC and the address are random text', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (device, mac, ipv4) => {
        expect(() => planGuest({ ...one, device, mac, ipv4 })).to.throw(BerthError)
      }),
    )
  })
})
