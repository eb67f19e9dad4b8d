import { expect } from 'chai'
import type { Firewall, FirewallRule } from '../../shared/firewall-rules.js'
import { macOf } from '../../agent/network/subnet.js'
import { icmpErrorFrame, type IcmpError, type QuotedDatagram } from '../support/network/frames.js'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  hostAddress,
  hostAddress6,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { gateway, udp } from '../support/network/network-pair.js'
import { waitFor } from '../support/wait.js'

/*
 * In these tests, a guest sends ICMP errors about connections of others. Conntrack assigns an error to the
 * connection in its quote, whoever sent the error. A forged "packet too big" would lower a path MTU for ten minutes.
 */

const publicAddress = '198.51.100.73'
const [own6, hostile6, third6] = ['11', '12', '13'].map((end) => `${guestPrefix6}${end}`) as [string, string, string]
const tooBig: IcmpError = { type: 3, code: 4, rest: 600 }
const tooBig6: IcmpError = { type: 2, code: 0, rest: 1280 }
const noPort: IcmpError = { type: 3, code: 3 }
const noPort6: IcmpError = { type: 1, code: 4 }

type Ends = readonly [from: string, to: string]

const accept = (direction: 'in' | 'out', protocol: 'udp' | 'icmp', port: string): FirewallRule => ({
  id: direction + protocol,
  direction,
  protocol,
  action: 'ACCEPT',
  network: 'all',
  sourceIp: '',
  port,
  description: '',
})
const closed: Firewall = {
  enabled: true,
  defaultAction: 'DROP',
  rules: [accept('in', 'udp', '53'), accept('out', 'udp', '53'), accept('out', 'icmp', '')],
}

describe('ICMP errors about connections of guests', function () {
  const lab = new NetworkLab('btesterr')
  const a = lab.guest(11, [udp(20001)], { ipv6Addresses: [own6], firewall: closed })
  const b = lab.guest(12, [], { ipv6Addresses: [hostile6] })
  const p = lab.guest(13, [], { publicIpv4s: [publicAddress], ipv6Addresses: [third6] })
  const [inA, inB, inP] = [a, b, p].map((guest) => lab.namespaceOf(guest)) as [string, string, string]
  const fromB = { from: b.mac, to: macOf(gateway) }
  let agent: AgentNetwork
  let seen: Record<'client' | 'a' | 'p', Set<string>>

  before(async () => {
    lab.build()
    // The bridge must not use br_netfilter, which would drop some of the forged errors.
    for (const family of ['ip', 'ip6'])
      lab.in(lab.host, 'sysctl', '-eqw', `net.bridge.bridge-nf-call-${family}tables=0`)
    agent = lab.agent()
    await agent.ensure([a, b, p])
    for (const guest of [a, b, p]) {
      lab.plug(guest)
      await lab.serve(lab.namespaceOf(guest), guest.device, 'udp:53')
    }
    await lab.serve(lab.client, 'client', 'udp:53')
    await lab.serve(lab.host, 'host', 'udp:53')
    seen = {
      client: await lab.sniff(lab.client, 'eth0'),
      a: await lab.sniff(inA, 'eth0'),
      p: await lab.sniff(inP, 'eth0'),
    }
    await openFlows()
  })
  after(() => lab.remove())

  /** Opens connections with packets in both directions, so that conntrack keeps the connections for minutes. */
  async function openFlows(): Promise<void> {
    for (const [name, target, sport] of [
      [inA, `udp:${clientAddress}:53`, 5001],
      [inA, `udp:${clientAddress6}:53`, 5001],
      [inB, `udp:${clientAddress}:53`, 5002],
      [inB, `udp:${clientAddress6}:53`, 5002],
      [inB, `udp:${hostAddress}:20001`, 5010],
      [inP, `udp:${clientAddress}:53`, 5003],
      [lab.client, `udp:${hostAddress}:20001`, 6001],
      [lab.client, `udp:${own6}:53`, 6001],
      [lab.client, `udp:${publicAddress}:53`, 6003],
      [lab.client, `udp:${hostAddress}:53`, 6005],
      [lab.client, `udp:${hostAddress6}:53`, 6005],
    ] as const)
      await waitFor(() => lab.ask(name, target, { sport, timeoutSeconds: 0.3 }), {
        what: `${name} ${target}`,
      })
  }

  const flow = (from: string, sport: number, to: string, dport: number): QuotedDatagram => ({
    from,
    to,
    ports: [sport, dport],
  })
  const error = ([from, to]: Ends, quoted: QuotedDatagram, marker: string, kind?: IcmpError): string =>
    icmpErrorFrame(fromB, { from, to }, { error: kind ?? (to.includes(':') ? tooBig6 : tooBig), quoted }, marker)

  /** Sends forged errors as guest B, followed by valid ones, whose arrival shows that the forged ones were handled. */
  async function sendAsB(...frames: readonly string[]): Promise<void> {
    for (const markers of Object.values(seen)) markers.clear()
    const right = [
      error([b.ipv4, clientAddress], flow(clientAddress, 53, b.ipv4, 5002), 'right', noPort),
      error([b.ipv4, hostAddress], flow(hostAddress, 20001, b.ipv4, 5010), 'right', noPort),
      error([hostile6, clientAddress6], flow(clientAddress6, 53, hostile6, 5002), 'right 6', noPort6),
    ]
    lab.tool(inB, 'send', 'eth0', ...frames, ...right)
    const isDone = (): boolean => seen.client.has('right') && seen.client.has('right 6') && seen.a.has('right')
    await waitFor(isDone, { what: 'errors of an end of the flow' })
  }

  const pathTo = (name: string, address: string): string => lab.in(name, 'ip', 'route', 'get', address)

  for (const [name, [from, to], quoted] of [
    [
      'to the remote end, about a connection of guest A',
      [b.ipv4, clientAddress],
      flow(clientAddress, 53, a.ipv4, 5001),
    ],
    ['to guest A, about a connection of guest A', [b.ipv4, hostAddress], flow(hostAddress, 5001, clientAddress, 53)],
    [
      'to the client, about a connection to a mapped port of guest A',
      [b.ipv4, clientAddress],
      flow(clientAddress, 6001, a.ipv4, 53),
    ],
    [
      'to guest A, about a connection to a mapped port of guest A',
      [b.ipv4, hostAddress],
      flow(hostAddress, 20001, clientAddress, 6001),
    ],
    [
      'to guest P, about a connection to the public address of guest P',
      [b.ipv4, publicAddress],
      flow(publicAddress, 5003, clientAddress, 53),
    ],
    [
      'to the client, about a connection to the public address of guest P',
      [b.ipv4, clientAddress],
      flow(clientAddress, 6003, p.ipv4, 53),
    ],
    [
      'to the remote end, about an IPv6 connection of guest A',
      [hostile6, clientAddress6],
      flow(clientAddress6, 53, own6, 5001),
    ],
    ['to guest A, about an IPv6 connection of guest A', [hostile6, own6], flow(own6, 5001, clientAddress6, 53)],
    [
      'to the client, about an IPv6 connection to guest A',
      [hostile6, clientAddress6],
      flow(clientAddress6, 6001, own6, 53),
    ],
  ] as const)
    it(`are dropped if guest B sends them ${name}`, async () => {
      await sendAsB(error([from, to], quoted, 'forged'))
      const reached = Object.entries(seen).flatMap(([who, markers]) => (markers.has('forged') ? [who] : []))
      expect(reached).to.deep.equal([])
    })

  it('do not lower the path MTU of the host if an unrelated guest sends them', async () => {
    await sendAsB(
      error([b.ipv4, hostAddress], flow(hostAddress, 53, clientAddress, 6005), 'forged'),
      error([hostile6, hostAddress6], flow(hostAddress6, 53, clientAddress6, 6005), 'forged'),
    )
    expect(pathTo(lab.host, clientAddress)).to.not.contain('mtu')
    expect(pathTo(lab.host, clientAddress6)).to.not.contain('mtu')
  })

  it('do not lower the path MTU of a client if an unrelated guest sends them', () => {
    expect(pathTo(lab.client, hostAddress)).to.not.contain('mtu')
    expect(pathTo(lab.client, own6)).to.not.contain('mtu')
  })

  it('are delivered if a router outside sends them', async () => {
    const macOn = (name: string, device: string): string =>
      lab.in(name, 'cat', `/sys/class/net/${device}/address`).trim()
    const link = { from: macOn(lab.client, 'eth0'), to: macOn(lab.host, 'up0') }
    const [router, router6] = ['198.51.100.9', '2001:db8:51::9']
    const send = (from: string, to: string, quoted: QuotedDatagram, marker: string): string =>
      lab.tool(
        lab.client,
        'send',
        'eth0',
        icmpErrorFrame(link, { from, to }, { error: to.includes(':') ? tooBig6 : tooBig, quoted }, marker),
      )
    send(router, hostAddress, flow(hostAddress, 5001, clientAddress, 53), 'way out')
    send(router, hostAddress, flow(hostAddress, 20001, clientAddress, 6001), 'mapping')
    send(router6, own6, flow(own6, 5001, clientAddress6, 53), 'way out 6')
    send(router, publicAddress, flow(publicAddress, 5003, clientAddress, 53), 'public')
    await waitFor(
      () => ['way out', 'mapping', 'way out 6'].every((marker) => seen.a.has(marker)) && seen.p.has('public'),
      { what: () => `errors of routers: ${[...seen.a, ...seen.p].join(', ')}` },
    )
  })

  it('are delivered to a client and to the host if the connected guest sends them', async () => {
    const link = { from: a.mac, to: macOf(gateway) }
    const own = ([from, to]: Ends, kind: IcmpError, quoted: QuotedDatagram, marker: string): string =>
      icmpErrorFrame(link, { from, to }, { error: kind, quoted }, marker)
    lab.in(inA, 'ping', '-c1', '-W1', '-e', '77', gateway)
    const answer: QuotedDatagram = { from: gateway, to: a.ipv4, ports: [0, 0], echo: 77 }
    lab.tool(
      ...([inA, 'send', 'eth0'] as const),
      own([a.ipv4, clientAddress], noPort, flow(clientAddress, 6001, a.ipv4, 53), 'mapping'),
      own([own6, clientAddress6], noPort6, flow(clientAddress6, 6001, own6, 53), 'mapping 6'),
      own([a.ipv4, gateway], tooBig, answer, 'host'),
    )
    await waitFor(() => seen.client.has('mapping') && seen.client.has('mapping 6'), {
      what: 'errors of a guest',
    })
    await waitFor(() => pathTo(lab.host, a.ipv4).includes('mtu 600'), { what: "the host's narrower path" })
  })
})
