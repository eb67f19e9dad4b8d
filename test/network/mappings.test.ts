import { expect } from 'chai'
import type { NatMapping } from '../../agent/network/contract.js'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  hostAddress,
  hostAddress6,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { eventually, waitFor } from '../support/wait.js'

/* Tests port ranges, host addresses, public addresses and IPv6 with real packets through real tables. */

const secondAddress = '198.51.100.3'
const [publicA, publicA2, publicB] = ['198.51.100.71', '198.51.100.72', '198.51.100.73']
const map = (hostPort: number, containerPort: number, more: Partial<NatMapping> = {}): NatMapping => ({
  protocol: 'tcp',
  hostIp: '',
  hostPort,
  hostPortEnd: hostPort,
  containerPort,
  ...more,
})

describe('a host with two guests', function () {
  const lab = new NetworkLab('btestmap')
  const a = lab.guest(
    11,
    [
      map(20001, 22),
      map(3000, 3000, { hostPortEnd: 3999 }),
      map(3000, 3000, { hostPortEnd: 3999, protocol: 'udp' }),
      map(21000, 3100, { hostPortEnd: 21019 }),
      map(20005, 22, { hostIp: secondAddress }),
      map(25000, 3000, { hostIp: hostAddress6 }),
    ],
    { publicIpv4s: [publicA, publicA2], ipv6Addresses: [`${guestPrefix6}11`, `${guestPrefix6}1:11`] },
  )
  const b = lab.guest(
    12,
    [map(20005, 22, { hostIp: hostAddress }), map(5000, 5000, { hostPortEnd: 5009, hostIp: secondAddress })],
    {
      publicIpv4s: [publicB],
      ipv6Addresses: [`${guestPrefix6}12`],
    },
  )
  const plain = lab.guest(13, [map(20003, 22), map(2500, 2500)])
  /** The IPv6 address of this guest is private, so the host replaces it by its own source address (masquerading). */
  const hidden = lab.guest(14, [map(20014, 22)], { ipv6Addresses: ['fd77::14'] })
  const all = [a, b, plain, hidden]
  const [inA, inB, inPlain, inHidden] = all.map((guest) => lab.namespaceOf(guest)) as [string, string, string, string]
  let agent: AgentNetwork

  before(async () => {
    lab.build()
    lab.in(lab.host, 'ip', 'address', 'add', `${secondAddress}/32`, 'dev', 'up0')
    agent = lab.agent()
    await agent.ensure(all)
    for (const guest of all) {
      lab.plug(guest)
      await lab.serve(
        lab.namespaceOf(guest),
        guest.device,
        'tcp:22',
        'tcp:3000-3999',
        'udp:3000-3999',
        'udp:53',
        'tcp:5000-5009',
      )
    }
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    await lab.serve(lab.host, 'host', 'tcp:8080')
    for (const inside of [inA, inB, inPlain]) await waitFor(() => lab.ask(inside, `tcp:${clientAddress}:80`))
    await waitFor(() => lab.ask(inA, `tcp:${clientAddress6}:80`))
  })
  after(() => lab.remove())

  describe('if ranges of ports are mapped', () => {
    it('needs one nft element for a range of 1,000 ports, and forwards all these ports', async () => {
      const ports = Array.from({ length: 1000 }, (_, i) => 3000 + i)
      for (const protocol of ['tcp', 'udp']) {
        const targets = ports.map((port) => `${protocol},${hostAddress},${port}`)
        await eventually(() => expect(lab.probe(lab.client, targets).filter(Boolean)).to.have.lengthOf(1000))
      }
      const elements = lab.in(lab.host, 'nft', '-n', 'list', 'map', 'ip', 'berth', 'port_ranges')
      expect(elements.match(/3000-3999/g)).to.have.lengthOf(2)
    })

    it('also forwards the ports for connections from itself and from other guests, but forwards no other ports', () => {
      expect(lab.answer(lab.client, `tcp:${hostAddress}:3999`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.answer(lab.host, `tcp:${hostAddress}:3500`)).to.equal(`bt11 ${hostAddress}`)
      expect(lab.answer(inPlain, `udp:${hostAddress}:3500`)).to.equal(`bt11 ${plain.ipv4}`)
      for (const port of [2999, 4000]) expect(lab.ask(lab.client, `tcp:${hostAddress}:${port}`)).to.equal('')
    })

    it('can forward ports to other port numbers in the guest', () => {
      for (const port of [21000, 21019])
        expect(lab.answer(lab.client, `tcp:${hostAddress}:${port}`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:21020`)).to.equal('')
    })

    it('forwards the ports of a single host address only at that address', () => {
      expect(lab.answer(lab.client, `tcp:${secondAddress}:5009`)).to.equal(`bt12 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:5009`)).to.equal('')
    })

    it('stops forwarding ports to their former guest when the ports move to another guest', async () => {
      const asked = (): string => lab.ask(lab.client, `udp:${hostAddress}:3700`, { sport: 5353 })
      expect(asked()).to.equal(`bt11 ${clientAddress}`)
      const moved = map(3700, 3700, { hostPortEnd: 3709, protocol: 'udp' })
      await agent.call('attach', { ...a, portMappings: [map(20001, 22)] })
      await agent.call('attach', { ...b, portMappings: [moved] })
      expect(asked()).to.equal(`bt12 ${clientAddress}`)
      await agent.call('attach', b)
      await agent.call('attach', a)
      expect(asked()).to.equal(`bt11 ${clientAddress}`)
    })
  })

  it('can forward the same port of two host addresses to different guests', () => {
    expect(lab.answer(lab.client, `tcp:${secondAddress}:20005`)).to.equal(`bt11 ${clientAddress}`)
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20005`)).to.equal(`bt12 ${clientAddress}`)
  })

  describe('if guests have public IPv4 addresses', () => {
    it('forwards every port of an address to its guest', () => {
      for (const address of [publicA, publicA2]) {
        expect(lab.answer(lab.client, `tcp:${address}:22`)).to.equal(`bt11 ${clientAddress}`)
        expect(lab.answer(lab.client, `udp:${address}:3005`)).to.equal(`bt11 ${clientAddress}`)
      }
      expect(lab.answer(lab.client, `tcp:${publicB}:22`)).to.equal(`bt12 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${publicB}:8080`)).to.equal('')
    })

    it('makes the first address of a guest its source address', () => {
      expect(lab.answer(inA, `tcp:${clientAddress}:80`)).to.equal(`client ${publicA}`)
      expect(lab.answer(inB, `udp:${clientAddress}:53`)).to.equal(`client ${publicB}`)
      expect(lab.answer(inPlain, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
    })

    it('lets other guests and the host itself reach the address', () => {
      expect(lab.answer(lab.host, `tcp:${publicA}:22`)).to.match(/^bt11 /)
      expect(lab.answer(inPlain, `tcp:${publicA}:22`)).to.equal(`bt11 ${plain.ipv4}`)
      expect(lab.answer(inB, `tcp:${publicA}:22`)).to.equal(`bt11 ${b.ipv4}`)
    })

    it('ends the connections of an address when the guest loses this address', async () => {
      expect(lab.answer(lab.client, `udp:${publicB}:53`, { sport: 5454 })).to.equal(`bt12 ${clientAddress}`)
      await agent.call('attach', { ...b, publicIpv4s: [] })
      expect(lab.in(lab.host, 'conntrack', '-L', '--orig-dst', publicB)).to.equal('')
      expect(lab.ask(lab.client, `udp:${publicB}:53`, { sport: 5454, timeoutSeconds: 0.3 })).to.equal('')
      expect(lab.answer(inB, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
      await agent.call('attach', b)
      expect(lab.answer(lab.client, `udp:${publicB}:53`, { sport: 5454 })).to.equal(`bt12 ${clientAddress}`)
    })
  })

  it('ends the connections of a removed mapping, even if the guest continues to send', async () => {
    await lab.follow(inPlain, 'tick', '2500')
    const heard = await lab.follow(lab.client, 'hear', hostAddress, '2500')
    await waitFor(() => heard.length > 5)
    await agent.call('attach', { ...plain, portMappings: plain.portMappings.slice(0, 1) })
    await waitFor(() => Date.now() / 1000 - Number(heard.at(-1)) > 1, { what: 'a second of silence' })
    await agent.call('attach', plain)
  })

  describe('if guests have IPv6 addresses', () => {
    it('routes traffic between each address and its guest', () => {
      expect(lab.answer(lab.client, `tcp:${guestPrefix6}11:22`)).to.equal(`bt11 ${clientAddress6}`)
      expect(lab.answer(lab.client, `udp:${guestPrefix6}12:3005`)).to.equal(`bt12 ${clientAddress6}`)
      expect(lab.answer(inB, `tcp:${clientAddress6}:80`)).to.equal(`client ${guestPrefix6}12`)
    })

    it('lets other guests reach the addresses', () => {
      expect(lab.answer(inB, `tcp:${guestPrefix6}11:22`)).to.equal(`bt11 ${guestPrefix6}12`)
    })

    it('serves port mappings at its IPv6 addresses, including mappings for only one IPv6 address', () => {
      expect(lab.answer(lab.client, `tcp:${hostAddress6}:20001`)).to.equal(`bt11 ${clientAddress6}`)
      expect(lab.answer(lab.client, `tcp:${hostAddress6}:3400`)).to.equal(`bt11 ${clientAddress6}`)
      expect(lab.answer(lab.client, `tcp:${hostAddress6}:25000`)).to.equal(`bt11 ${clientAddress6}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:25000`)).to.equal('')
    })

    it('replaces private source addresses by its own, and forwards only mapped ports to private addresses', () => {
      expect(lab.answer(inHidden, `tcp:${clientAddress6}:80`)).to.equal(`client ${hostAddress6}`)
      expect(lab.answer(lab.client, `tcp:${hostAddress6}:20014`)).to.equal(`bt14 ${clientAddress6}`)
      lab.in(lab.client, 'ip', 'route', 'replace', 'fd77::/64', 'via', hostAddress6)
      expect(lab.ask(lab.client, 'tcp:fd77::14:22', { timeoutSeconds: 0.5 })).to.equal('')
    })

    it('answers pings of guests at the gateway address, but nothing at its own IPv6 address', () => {
      expect(lab.ask(inA, `tcp:${hostAddress6}:8080`, { timeoutSeconds: 0.5 })).to.equal('')
      expect(lab.probe(inA, [`icmp,${hostAddress6}`])).to.deep.equal([false])
      lab.in(inA, 'ping', '-c1', '-W1', '-I', `${guestPrefix6}11`, 'fe80::1%eth0')
    })
  })

  it('warns while a chain of another program drops packets of guests', async () => {
    const warnings = async (): Promise<string> => {
      const fresh = lab.agent()
      await fresh.ensure(all)
      const text = String(await fresh.call('warnings'))
      await fresh.end()
      return text
    }
    expect(await warnings()).to.not.contain('DOCKER-USER')
    // These are rules as Docker and ufw create them. nft cannot show all of their parts, and warns about this.
    lab.in(lab.host, 'iptables-nft', ...'-P FORWARD DROP'.split(' '))
    lab.in(lab.host, 'iptables-nft', ...'-A FORWARD -m conntrack --ctstate INVALID -j DROP'.split(' '))
    expect(await warnings()).to.contain('table ip filter, chain FORWARD')
    expect(lab.ask(lab.client, `tcp:${publicA}:22`, { timeoutSeconds: 0.3 })).to.equal('')
    lab.in(
      lab.host,
      'nft',
      'add rule ip filter FORWARD iifname berth0 accept; add rule ip filter FORWARD oifname berth0 counter accept',
    )
    expect(await warnings()).to.not.contain('DOCKER-USER')
    expect(lab.answer(lab.client, `tcp:${publicA}:22`)).to.equal(`bt11 ${clientAddress}`)
    // This chain is like a chain of firewalld. Its policy accepts packets, but its last rule rejects them.
    lab.in(
      lab.host,
      'nft',
      'add table inet fw; add chain inet fw forward { type filter hook forward priority 10; }; add chain inet fw zones; ' +
        'add rule inet fw forward ct state established,related accept; add rule inet fw forward jump zones; ' +
        'add rule inet fw forward reject with icmpx admin-prohibited',
    )
    expect(await warnings()).to.contain('table inet fw, chain forward')
    expect(lab.ask(inPlain, `tcp:${clientAddress}:80`, { timeoutSeconds: 0.3 })).to.equal('')
    const accepts = ['iifname', 'oifname'].map((way) => `add rule inet fw zones ${way} berth0 accept`)
    lab.in(lab.host, 'nft', accepts.join('; '))
    expect(await warnings()).to.not.contain('DOCKER-USER')
    expect(lab.answer(inPlain, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
  })
})
