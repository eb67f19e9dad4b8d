import { expect } from 'chai'
import type { NatMapping } from '../../agent/network/contract.js'
import type { Firewall } from '../../shared/firewall-rules.js'
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

/*
 * In these tests, a guest scans all ports and protocols of each IPv4 and IPv6 address of the host. Programs of the host
 * listen on all its addresses.
 */

const gateway = '10.77.0.1'
const second = '198.51.100.3'
const publicAddress = '198.51.100.10'
/** DNS resolvers of clouds. Guests cannot reach other services at these addresses. */
const resolvers = ['168.63.129.16', 'fd20:ce::254']
const mapping = (protocol: 'tcp' | 'udp', hostPort: number): NatMapping => ({
  protocol,
  hostIp: '',
  hostPort,
  hostPortEnd: hostPort,
  containerPort: protocol === 'tcp' ? 22 : 53,
})

describe('a guest that scans its host', function () {
  const lab = new NetworkLab('btestscan', { resolvers })
  const rules = { direction: 'in', action: 'ACCEPT', network: 'all', sourceIp: '', description: '' } as const
  const open = [
    { ...rules, id: 'ssh', protocol: 'tcp' as const, port: '22' },
    { ...rules, id: 'dns', protocol: 'udp' as const, port: '53' },
  ]
  const neighbour = lab.guest(11, [mapping('tcp', 20001), mapping('udp', 20001)], {
    publicIpv4s: [publicAddress],
    ipv6Addresses: [`${guestPrefix6}11`],
    // Drops packets to closed ports, because the kernel of the guest would answer them.
    firewall: { enabled: true, defaultAction: 'DROP', rules: open },
  })
  const scanner = lab.guest(12, [], { ipv6Addresses: [`${guestPrefix6}12`] })
  const inside = lab.namespaceOf(scanner)
  let agent: AgentNetwork
  let linkLocal: string

  before(async () => {
    lab.build()
    lab.in(lab.host, 'ip', 'address', 'add', `${second}/24`, 'dev', 'up0')
    agent = lab.agent()
    await agent.ensure([neighbour, scanner])
    for (const guest of [neighbour, scanner]) {
      lab.plug(guest)
      await lab.serve(lab.namespaceOf(guest), guest.device, 'tcp:22', 'udp:53', 'tcp:8000')
    }
    await lab.serve(lab.host, 'host', 'tcp:22', 'tcp:53', 'tcp:7443', 'tcp:8080', 'udp:53', 'udp:123', 'udp:5353')
    await lab.serve(lab.client, 'client', 'tcp:53', 'tcp:80')
    for (const address of [clientAddress, clientAddress6])
      await waitFor(() => lab.ask(inside, `tcp:${address}:80`), { what: `the way out to ${address}` })
    const shown = lab.in(lab.host, 'ip', '-6', 'address', 'show', 'dev', 'up0', 'scope', 'link')
    linkLocal = /inet6 (fe80::[0-9a-f:]+)\//.exec(shown)?.[1] ?? ''
  })

  after(() => lab.remove())

  /** Scans targets. @returns the protocols and ports that answer, by target */
  function knock(...targets: string[]): Record<string, string[]> {
    const answers: Record<string, string[]> = {}
    for (const line of lab
      .tool(inside, 'knock', 'eth0', ...targets)
      .split('\n')
      .filter(Boolean)) {
      const [source = '', answer = ''] = line.split(' ')
      answers[source] = [...(answers[source] ?? []), answer]
    }
    return answers
  }

  // Clouds serve the user data and credentials of a machine at these addresses.
  for (const address of ['169.254.169.254', ...lab.config.closed_destinations])
    it(`cannot reach ${address}, which the host can reach, except for DNS at a configured resolver`, async () => {
      lab.in(lab.client, 'ip', 'address', 'add', address, 'dev', 'lo')
      expect(lab.answer(lab.host, `tcp:${address}:80`)).to.match(/^client /)
      const open: Firewall = { enabled: true, defaultAction: 'ACCEPT', rules: [] }
      for (const guest of [{ ...scanner, firewall: open }, scanner]) {
        await agent.call('attach', guest)
        const targets = [`tcp,${address},80`, `icmp,${address}`, `tcp,${address},53`]
        const wanted = [false, false, resolvers.includes(address)]
        await eventually(() => expect(lab.probe(inside, targets)).to.deep.equal(wanted))
      }
      lab.in(lab.client, 'ip', 'address', 'delete', address, 'dev', 'lo')
    })

  const mapped = ['tcp:20001', 'udp:20001']

  it('finds only mapped ports at the IPv4 addresses of the host', () => {
    const found = knock(hostAddress, second, gateway)
    expect(found).to.deep.equal({ [hostAddress]: mapped, [second]: mapped, [gateway]: mapped })
  })

  it('finds only mapped ports at the IPv6 addresses of the host', () => {
    expect(linkLocal).to.match(/^fe80:/)
    expect(knock(hostAddress6, 'fe80::1', linkLocal)).to.deep.equal({ [hostAddress6]: mapped })
  })

  it('gets no answers from broadcast and multicast addresses', () => {
    expect(knock('224.0.0.1', '10.77.0.255', 'ff02::1', 'ff02::fb')).to.deep.equal({})
  })

  it('finds ports of another guest with a firewall only at the public addresses of that guest', () => {
    const found = knock(neighbour.ipv4, publicAddress, `${guestPrefix6}11`)
    const let_in = ['tcp:22', 'udp:53']
    expect(found).to.deep.equal({ [publicAddress]: let_in, [`${guestPrefix6}11`]: let_in })
  })
})
