import { expect } from 'chai'
import { ipv4Frame, udp6Frame } from '../support/network/frames.js'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* Packets from outside with guest A's address must not reach guest B. B's answers would pass A's closed firewall. */

const publicAddress = '198.51.100.72'

describe('packets from outside with the source address of a guest', function () {
  const lab = new NetworkLab('btestfor')
  const a = lab.guest(11, [], { ipv6Addresses: [`${guestPrefix6}11`] })
  const b = lab.guest(12, [], { publicIpv4s: [publicAddress], ipv6Addresses: [`${guestPrefix6}12`] })
  let agent: AgentNetwork
  let seen: Set<string>
  let link: { from: string; to: string }

  before(async () => {
    lab.build()
    for (const name of ['all', 'up0']) lab.in(lab.host, 'sysctl', '-qw', `net.ipv4.conf.${name}.rp_filter=0`)
    agent = lab.agent()
    await agent.ensure([a, b])
    for (const guest of [a, b]) lab.plug(guest)
    const macOn = (name: string, device: string): string =>
      lab.in(name, 'cat', `/sys/class/net/${device}/address`).trim()
    link = { from: macOn(lab.client, 'eth0'), to: macOn(lab.host, 'up0') }
    seen = await lab.sniff(lab.namespaceOf(b), 'eth0')
  })
  after(() => lab.remove())

  const send = (frame: string): string => lab.tool(lab.client, 'send', 'eth0', frame)
  const from4 = (from: string, marker: string) => ipv4Frame(link, { from, to: publicAddress }, marker)
  const from6 = (from: string, marker: string) => udp6Frame(link, { from, to: `${guestPrefix6}12` }, [4000, 9], marker)

  for (const [name, forged, right] of [
    ['a private IPv4 address', () => from4(a.ipv4, 'forged 4'), () => from4(clientAddress, 'right 4')],
    ['an IPv6 address', () => from6(`${guestPrefix6}11`, 'forged 6'), () => from6(clientAddress6, 'right 6')],
    ['a private IPv6 address', () => from6('fd77::11', 'forged fd'), () => from6(clientAddress6, 'right fd')],
  ] as const)
    it(`are not delivered if this address is ${name}`, async () => {
      seen.clear()
      await waitFor(
        () => {
          send(forged())
          send(right())
          return seen.size > 0
        },
        { what: 'the valid packets' },
      )
      expect([...seen].filter((marker) => marker.startsWith('forged'))).to.deep.equal([])
    })
})
