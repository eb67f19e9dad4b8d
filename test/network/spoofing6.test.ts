import { expect } from 'chai'
import { macOf } from '../../agent/network/subnet.js'
import { discoveryFrame, udp6Frame } from '../support/network/frames.js'
import { guestPrefix6, NetworkLab, type AgentNetwork } from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* Tests forged frames of a guest with IPv6. spoofing4.test.ts tests forged frames of a guest without IPv6. */

describe('IPv6 packets of a guest', function () {
  const lab = new NetworkLab('btestnd')
  const a = lab.guest(11, [], { ipv6Addresses: [`${guestPrefix6}11`] })
  const b = lab.guest(12, [], { ipv6Addresses: [`${guestPrefix6}12`] })
  const [inA, inB] = [a, b].map((guest) => lab.namespaceOf(guest)) as [string, string]
  const [ownAddress, otherAddress] = [`${guestPrefix6}11`, `${guestPrefix6}12`]
  const bridgeMac = macOf('10.77.0.1')
  const strange = '02:be:00:00:00:99'
  const allNodes = { mac: '33:33:00:00:00:01', address: 'ff02::1' }
  const toHost = { from: a.mac, to: bridgeMac }
  const toAll = { from: a.mac, to: allNodes.mac }
  const own = { from: ownAddress, to: 'fe80::1' }
  const toNodes = { from: ownAddress, to: allNodes.address }
  let agent: AgentNetwork
  let seenByHost: Set<string>
  let seenByB: Set<string>

  const frames: Record<string, string> = {
    'a packet with an unknown source MAC': udp6Frame({ ...toHost, from: strange }, own, [4000, 9], 'mac'),
    "a packet with another guest's source MAC": udp6Frame({ ...toHost, from: b.mac }, own, [4000, 9], 'mac-b'),
    "a packet with another guest's source address": udp6Frame(
      toHost,
      { ...own, from: otherAddress },
      [4000, 9],
      'ip-b',
    ),
    "a packet with another guest's source MAC and address": udp6Frame(
      { ...toHost, from: b.mac },
      { ...own, from: otherAddress },
      [4000, 9],
      'both-b',
    ),
    'a packet with an unassigned source address': udp6Frame(
      toHost,
      { ...own, from: `${guestPrefix6}99` },
      [4000, 9],
      'ip-99',
    ),
    "a packet with the gateway's source address": udp6Frame(toHost, { ...own, from: 'fe80::1' }, [4000, 9], 'ip-gw'),
    'a packet with the link-local source address of another MAC': udp6Frame(
      toHost,
      { ...own, from: 'fe80::99' },
      [4000, 9],
      'll',
    ),
    'a packet with the unspecified source address': udp6Frame(toHost, { ...own, from: '::' }, [4000, 9], 'ip-0'),
    "a DHCPv6 server's answer": udp6Frame(toAll, toNodes, [547, 546], 'dhcp-server'),
    "a DHCPv6 client's request": udp6Frame(toAll, toNodes, [546, 547], 'dhcp-client'),
    'a router advertisement': discoveryFrame(toAll, toNodes, { type: 134, linkAddress: a.mac }, 'ra'),
    "a router advertisement in the gateway's name": discoveryFrame(
      toAll,
      { ...toNodes, from: 'fe80::1' },
      { type: 134, linkAddress: a.mac },
      'ra-gw',
    ),
    'a router solicitation': discoveryFrame(toAll, toNodes, { type: 133 }, 'rs'),
    "a neighbour advertisement for another guest's address": discoveryFrame(
      toHost,
      own,
      { type: 136, target: otherAddress, linkAddress: a.mac },
      'na-b',
    ),
    "a neighbour advertisement for the gateway's address": discoveryFrame(
      toAll,
      toNodes,
      { type: 136, target: 'fe80::1', linkAddress: a.mac },
      'na-gw',
    ),
    'an ICMPv6 redirect': discoveryFrame(toHost, own, { type: 137, target: otherAddress }, 'redirect'),
    "a neighbour solicitation in another guest's name": discoveryFrame(
      toHost,
      { ...own, from: otherAddress },
      { type: 135, target: 'fe80::1', linkAddress: a.mac },
      'ns-b',
    ),
    'a neighbour solicitation with more than one option': discoveryFrame(
      toHost,
      own,
      { type: 135, target: 'fe80::1', linkAddress: a.mac },
      'ns-long',
    ),
    'a neighbour solicitation from a remote network': discoveryFrame(
      toHost,
      { ...own, hopLimit: 64 },
      { type: 135, target: 'fe80::1' },
      'ns-far',
    ),
    'a valid packet to another guest': udp6Frame(
      { from: a.mac, to: b.mac },
      { from: ownAddress, to: otherAddress },
      [4000, 9],
      'to-b',
    ),
  }

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure([a, b])
    for (const guest of [a, b]) lab.plug(guest)
    seenByHost = await lab.sniff(lab.host, 'berth0')
    seenByB = await lab.sniff(inB, 'eth0')
    const right = udp6Frame(toHost, own, [4000, 9], 'right')
    await waitFor(() => (lab.tool(inA, 'send', 'eth0', right), seenByHost.has('right')))
    seenByHost.clear()
    lab.tool(inA, 'send', 'eth0', ...Object.values(frames), right)
    await waitFor(() => seenByHost.has('right'), { what: 'the valid frame' })
    const toB = { from: bridgeMac, to: b.mac }
    const fromHost = udp6Frame(toB, { from: 'fe80::1', to: otherAddress }, [4000, 9], 'from-host')
    lab.tool(lab.host, 'send', 'berth0', fromHost)
    await waitFor(() => seenByB.has('from-host'), { what: "the host's frame" })
  })
  after(() => lab.remove())

  for (const [name, frame] of Object.entries(frames)) {
    const marker = /<<(.*)>>/.exec(Buffer.from(frame, 'hex').toString('latin1'))![1]!
    // A valid packet to guest B may reach the bridge, where the host sees it, but must not reach guest B.
    it(`are not delivered to other guests: ${name}`, () => {
      if (name !== 'a valid packet to another guest') expect([...seenByHost]).to.not.include(marker)
      expect([...seenByB]).to.not.include(marker)
    })
  }

  it('add a neighbour entry only if they are solicitations with the MAC of the sending guest', async () => {
    const neighbour = (): string => lab.in(lab.host, 'ip', 'neighbour', 'show', 'dev', 'berth0')
    const linkLocal = 'fe80::be:aff:fe4d:b'
    const solicit = (linkAddress: string): void => {
      const ask = { type: 135, target: 'fe80::1', linkAddress }
      lab.tool(inA, 'send', 'eth0', discoveryFrame(toHost, { ...own, from: linkLocal }, ask))
    }
    lab.in(lab.host, 'ip', 'neighbour', 'flush', 'dev', 'berth0')
    solicit(b.mac)
    lab.tool(inA, 'send', 'eth0', udp6Frame(toHost, own, [4000, 9], 'after'))
    await waitFor(() => seenByHost.has('after'))
    expect(neighbour()).to.not.contain(linkLocal)
    solicit(a.mac)
    await waitFor(() => neighbour().includes(`${linkLocal} lladdr ${a.mac}`), { what: 'the neighbour' })
  })

  it('are dropped if they are forged, even if the firewall permits everything', async () => {
    const open = { enabled: true, defaultAction: 'ACCEPT', rules: [] }
    await agent.call('attach', { ...a, firewall: open })
    seenByHost.clear()
    const right = udp6Frame(toHost, own, [4000, 9], 'right')
    lab.tool(inA, 'send', 'eth0', ...Object.values(frames), right)
    await waitFor(() => seenByHost.has('right'))
    expect([...seenByHost].filter((marker) => !['right', 'to-b'].includes(marker))).to.deep.equal([])
    expect([...seenByB]).to.deep.equal(['from-host'])
  })
})
