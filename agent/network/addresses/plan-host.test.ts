import { expect } from 'chai'
import { markOf } from './mark.js'
import {
  planGateway6,
  planHostIpv4,
  planHostIpv6,
  planIpv6Announcements,
  planIpv6Settings,
  type GuestIpv6,
  type ObservedIpv4,
  type ObservedIpv6,
  type PlacedIpv4,
} from './plan-host.js'

const mark = { metric: 3187671041, protocol: 200 }
const at = (address: string, device = 'eth0'): PlacedIpv4 => ({ address, interface: device })
const ours = (address: string, device = 'eth0'): ObservedIpv4 => ({ ...at(address, device), isOurs: true })
const foreign = (address: string, device = 'eth0'): ObservedIpv4 => ({
  ...at(address, device),
  isOurs: false,
})
const add = (address: string, device = 'eth0') => `address replace ${address}/32 dev ${device} metric 3187671041`
const del = (address: string, device = 'eth0') => `address delete ${address}/32 dev ${device}`

describe('the plan of the host’s public addresses', () => {
  for (const [name, want, have, commands, added] of [
    ['changes nothing if there are no addresses', [], [], [], []],
    ['adds a missing address', [at('203.0.113.1')], [], [add('203.0.113.1')], ['203.0.113.1']],
    ['does not change an existing address', [at('203.0.113.1')], [ours('203.0.113.1')], [], []],
    ['does not change an address that another program added', [at('203.0.113.1')], [foreign('203.0.113.1')], [], []],
    [
      'does not change an address that another program added to another interface',
      [at('203.0.113.1')],
      [foreign('203.0.113.1', 'lo')],
      [],
      [],
    ],
    [
      'removes only addresses that the agent has added and that are no longer needed',
      [],
      [ours('203.0.113.1'), foreign('203.0.113.2')],
      [del('203.0.113.1')],
      [],
    ],
    [
      'moves an address to another interface',
      [at('203.0.113.1', 'eth1')],
      [ours('203.0.113.1')],
      [del('203.0.113.1'), add('203.0.113.1', 'eth1')],
      ['203.0.113.1'],
    ],
    [
      'removes an address of the agent if the operator has configured the same address on another interface',
      [at('203.0.113.1')],
      [ours('203.0.113.1'), foreign('203.0.113.1', 'eth1')],
      [del('203.0.113.1')],
      [],
    ],
  ] as const)
    it(name, () => {
      const plan = planHostIpv4(want, have, mark)
      expect(plan.commands).to.deep.equal(commands)
      expect(plan.added.map(({ address }) => address)).to.deep.equal(added)
    })
})

describe('the plan of routes, neighbour entries and proxy entries for IPv6 addresses of guests', () => {
  const place = { bridge: 'berth0', mark, isGuestDevice: () => false }
  const guest: GuestIpv6 = { address: '2001:db8::5', mac: '02:be:0a:40:00:05', proxyOn: '' }
  const proxied = { ...guest, proxyOn: 'eth0' }
  const nothing: ObservedIpv6 = { routes: new Set(), neighbours: new Map(), proxies: new Set() }
  const right: ObservedIpv6 = {
    routes: new Set(['2001:db8::5']),
    neighbours: new Map([['2001:db8::5', '02:be:0a:40:00:05']]),
    proxies: new Set(['2001:db8::5 eth0']),
  }
  const neighbour = 'neighbour replace 2001:db8::5 lladdr 02:be:0a:40:00:05 dev berth0 nud permanent'
  const route = 'route replace 2001:db8::5/128 dev berth0 protocol 200'
  const proxy = 'neighbour replace proxy 2001:db8::5 dev eth0 protocol 200'
  const [noProxy, noRoute, noNeighbour] = [
    'neighbour delete proxy 2001:db8::5 dev eth0',
    'route delete 2001:db8::5/128 dev berth0 protocol 200',
    'neighbour delete 2001:db8::5 dev berth0',
  ]

  for (const [name, want, have, commands] of [
    ['changes nothing if there are no addresses', [], nothing, []],
    ['adds a neighbour entry and a route for a routed address', [guest], nothing, [neighbour, route]],
    [
      'adds a neighbour entry, a route and a proxy entry for a proxied address',
      [proxied],
      nothing,
      [neighbour, route, proxy],
    ],
    ['changes nothing if all entries exist', [proxied], right, []],
    ['removes all entries of a removed address', [], right, [noProxy, noRoute, noNeighbour]],
    ['removes the proxy entry of an address that is now routed', [guest], right, [noProxy]],
    [
      'moves a proxy entry to another interface',
      [{ ...guest, proxyOn: 'eth1' }],
      right,
      [noProxy, proxy.replace('eth0', 'eth1')],
    ],
    [
      'replaces a neighbour entry whose MAC differs',
      [proxied],
      { ...right, neighbours: new Map([['2001:db8::5', '02:be:00:00:00:01']]) },
      [neighbour],
    ],
  ] as const)
    it(name, () => expect(planHostIpv6(want, have, place)).to.deep.equal(commands))

  it('announces an address on an interface on which the host has not answered for it yet', () => {
    const other = { ...proxied, address: '2001:db8::6' }
    const announced = (known: [string, string][]) => [
      ...planIpv6Announcements([proxied, { ...guest, address: '2001:db8::7' }, other], new Map(known)),
    ]
    expect(announced([])).to.deep.equal([['eth0', ['2001:db8::5', '2001:db8::6']]])
    expect(announced([['2001:db8::5', 'eth0']])).to.deep.equal([['eth0', ['2001:db8::6']]])
    expect(announced([['2001:db8::5', 'eth1']])).to.deep.equal([['eth0', ['2001:db8::5', '2001:db8::6']]])
  })
})

describe('the plan of the bridge’s IPv6 gateway address', () => {
  it('adds the link-local address of the gateway if it is missing', () => {
    expect(planGateway6('berth0', [{ local: '10.64.0.1', prefixlen: 16 }])).to.deep.equal([
      'address add fe80::1/64 dev berth0 nodad',
    ])
    expect(planGateway6('berth0', [{ local: 'fe80::1', prefixlen: 64 }])).to.deep.equal([])
  })
})

describe('the plan of the kernel settings for IPv6', () => {
  it('keeps routes from router advertisements when the host begins to forward packets', () => {
    const settings = planIpv6Settings('berth0', { advertised: ['eth0', 'berth0'], proxied: ['eth0'] })
    const paths = settings.map(({ path, value }) => `${path.replace('net/ipv6/conf/', '')} ${value}`)
    expect(paths).to.not.include('berth0/accept_ra 2')
    expect(paths.indexOf('eth0/accept_ra 2')).to.be.greaterThan(-1).and.below(paths.indexOf('all/forwarding 1'))
    expect(paths).to.include.members(['eth0/proxy_ndp 1', 'net/ipv6/neigh/eth0/proxy_delay 0'])
  })
})

describe('the metric and the protocol number of an agent’s routes and addresses', () => {
  it('depend only on the agent’s table name, and differ between table names', () => {
    expect(markOf('berth')).to.deep.equal(markOf('berth'))
    expect(markOf('berth')).to.not.deep.equal(markOf('berth_2'))
    const { metric, protocol } = markOf('berth')
    expect(metric)
      .to.be.greaterThan(0xbe000000 - 1)
      .and.below(2 ** 32)
    expect(protocol).to.be.greaterThan(192).and.below(256)
  })
})
