import { expect } from 'chai'
import { macOf } from '../../agent/network/subnet.js'
import { arpFrame, icmpErrorFrame, ipv4Frame, rawFrame, tagged } from '../support/network/frames.js'
import { gateway, NetworkPair } from '../support/network/network-pair.js'
import { waitFor } from '../support/wait.js'

describe('packets of a guest', function () {
  const pair = new NetworkPair('btestsp4')
  const { lab, a, b, inA, inB } = pair
  let seenByHost: Set<string>
  let seenByB: Set<string>
  const bridgeMac = macOf(gateway)
  const toHost = { from: a.mac, to: bridgeMac }
  const own = { from: a.ipv4, to: gateway }
  const strange = '02:be:00:00:00:99'
  const frames: Record<string, string> = {
    'a packet with an unknown source MAC': ipv4Frame({ from: strange, to: bridgeMac }, own, 'mac'),
    "a packet with another guest's source MAC": ipv4Frame({ from: b.mac, to: bridgeMac }, own, 'mac-b'),
    "a packet with the gateway's source MAC": ipv4Frame({ from: bridgeMac, to: b.mac }, own, 'mac-gw'),
    "a packet with another guest's source address": ipv4Frame(toHost, { ...own, from: b.ipv4 }, 'ip-b'),
    "a packet with another guest's source MAC and address": ipv4Frame(
      { from: b.mac, to: bridgeMac },
      { ...own, from: b.ipv4 },
      'both-b',
    ),
    'a packet with a source address outside the subnet': ipv4Frame(toHost, { ...own, from: '192.0.2.7' }, 'ip-out'),
    'a packet with the source address 0.0.0.0': ipv4Frame(toHost, { ...own, from: '0.0.0.0' }, 'ip-0'),
    "a DHCP server's answer": ipv4Frame(
      { from: a.mac, to: 'ff:ff:ff:ff:ff:ff' },
      { from: a.ipv4, to: '255.255.255.255', sport: 67 },
      'dhcp',
    ),
    'an ICMP redirect': icmpErrorFrame(
      toHost,
      own,
      {
        error: { type: 5, code: 1, rest: 0x0a4d000c },
        quoted: { from: gateway, to: a.ipv4, ports: [5000, 53] },
      },
      'redirect',
    ),
    "an ARP packet that claims the gateway's address": arpFrame(
      a.mac,
      { mac: a.mac, ipv4: gateway, target: b.ipv4, operation: 2 },
      'arp-gw',
    ),
    "an ARP packet that claims another guest's address": arpFrame(
      a.mac,
      { mac: a.mac, ipv4: b.ipv4, target: gateway },
      'arp-b',
    ),
    'an ARP packet with an unknown sender MAC': arpFrame(
      a.mac,
      { mac: strange, ipv4: a.ipv4, target: gateway },
      'arp-sha',
    ),
    'an ARP packet in a frame with an unknown source MAC': arpFrame(
      strange,
      { mac: a.mac, ipv4: a.ipv4, target: gateway },
      'arp-eth',
    ),
    'an ARP packet with an unknown operation': arpFrame(
      a.mac,
      { mac: a.mac, ipv4: a.ipv4, target: gateway, operation: 3 },
      'arp-op',
    ),
    'an IPv6 packet': rawFrame(toHost, 0x86dd, 'ipv6', '6000000000003a40'),
    'a router advertisement': rawFrame({ from: a.mac, to: '33:33:00:00:00:01' }, 0x86dd, 'ra', '6000000000003aff'),
    'a forged packet with a VLAN tag': tagged(ipv4Frame(toHost, { ...own, from: b.ipv4 }, 'vlan')),
    'a valid packet with a VLAN tag': tagged(ipv4Frame(toHost, own, 'vlan-own')),
    'a packet with two VLAN tags': tagged(tagged(ipv4Frame(toHost, own, 'qinq')), 0x88a8),
    'a frame with an unknown ether type': rawFrame(toHost, 0x88b5, 'type'),
    "a frame with another guest's source MAC, sent to a bridge group address": rawFrame(
      { from: b.mac, to: '01:80:c2:00:00:0e' },
      0x88cc,
      'lldp',
    ),
    'a valid packet to another guest': ipv4Frame({ from: a.mac, to: b.mac }, { from: a.ipv4, to: b.ipv4 }, 'to-b'),
    'a broadcast': ipv4Frame({ from: a.mac, to: 'ff:ff:ff:ff:ff:ff' }, { from: a.ipv4, to: '10.77.0.255' }, 'to-all'),
  }
  /** Names of frames to the whole segment. The host receives them, but other guests must not. */
  const forHostOnly = new Set(['a broadcast'])

  before(async () => {
    await pair.open()
    seenByHost = await lab.sniff(lab.host, 'berth0')
    seenByB = await lab.sniff(inB, 'eth0')
    lab.tool(inA, 'send', 'eth0', ...Object.values(frames))
    // When this valid frame arrives, all frames before it were handled.
    lab.tool(inA, 'send', 'eth0', ipv4Frame(toHost, own, 'right'))
    await waitFor(() => seenByHost.has('right'), { what: 'the valid frame' })
    const toB = { from: bridgeMac, to: b.mac }
    lab.tool(lab.host, 'send', 'berth0', ipv4Frame(toB, { from: gateway, to: b.ipv4 }, 'from-host'))
    await waitFor(() => seenByB.has('from-host'), { what: "the host's frame" })
  })

  after(() => lab.remove())

  for (const [name, frame] of Object.entries(frames)) {
    const marker = /<<(.*)>>/.exec(Buffer.from(frame, 'hex').toString('latin1'))![1]!
    it(`are not delivered to other guests: ${name}`, () => {
      if (!forHostOnly.has(name)) expect([...seenByHost]).to.not.include(marker)
      expect([...seenByB]).to.not.include(marker)
    })
  }

  it('do not change the bridge port of another guest’s MAC', () => {
    const learnt = lab.tool(lab.host, 'fdb', 'berth0').split('\n')
    const portOf = (device: string): number =>
      Number(lab.in(lab.host, 'cat', `/sys/class/net/${device}/brport/port_no`))
    const of = (mac: string): number[] =>
      learnt.filter((line) => line.startsWith(mac)).map((line) => Number(line.split(' ')[1]))
    expect(of(b.mac)).to.deep.equal([portOf(b.device)])
    expect(of(strange)).to.deep.equal([])
  })

  it('are dropped before the guest is attached and after it is detached', async () => {
    const c = lab.guest(13)
    lab.plug(c)
    const inC = lab.namespaceOf(c)
    const fromC = (marker: string): string =>
      ipv4Frame({ from: c.mac, to: bridgeMac }, { from: c.ipv4, to: gateway }, marker)
    lab.tool(inC, 'send', 'eth0', fromC('before'))
    await pair.agent.call('attach', c)
    await waitFor(() => (lab.tool(inC, 'send', 'eth0', fromC('during')), seenByHost.has('during')))
    await pair.agent.call('detach', c)
    lab.tool(inC, 'send', 'eth0', fromC('after'))
    lab.tool(inA, 'send', 'eth0', ipv4Frame(toHost, own, 'last'))
    await waitFor(() => seenByHost.has('last'))
    expect([...seenByHost])
      .to.include('during')
      .and.not.include('before')
      .and.not.include('after')
    lab.unplug(c)
  })
})
