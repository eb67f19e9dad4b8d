import { expect } from 'chai'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  hostAddress,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* In these tests, a guest has too many connections, opened by itself or by others. The packets and tables are real. */

describe('the connections of a guest', function () {
  const lab = new NetworkLab('btestcon')
  const addresses = Array.from({ length: 64 }, (_, i) => `${guestPrefix6}a:${(i + 1).toString(16)}`)
  const ssh = { protocol: 'tcp', hostIp: '', hostPort: 20002, hostPortEnd: 20002, containerPort: 22 } as const
  const many = lab.guest(11, [], { ipv6Addresses: addresses })
  const other = lab.guest(12, [ssh], { ipv6Addresses: [`${guestPrefix6}b:1`] })
  const [inMany, inOther] = [many, other].map((guest) => lab.namespaceOf(guest)) as [string, string]
  let agent: AgentNetwork

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure([many, other])
    for (const guest of [many, other]) lab.plug(guest)
    await lab.serve(inMany, 'many', 'tcp:22')
    await lab.serve(inOther, 'other', 'tcp:22', 'udp:53')
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    for (const inside of [inMany, inOther])
      for (const address of [clientAddress, clientAddress6])
        await waitFor(() => lab.ask(inside, `tcp:${address}:80`), { what: `the way out to ${address}` })
  })
  after(() => lab.remove())
  beforeEach(async () => {
    lab.in(lab.host, 'conntrack', '-F')
    // A guest that has exceeded the limit cannot open connections for a second. The test waits for this second to end.
    await waitFor(() => lab.ask(inMany, `udp:${clientAddress}:53`, { timeoutSeconds: 0.2 }))
    await waitFor(() => lab.ask(lab.client, `tcp:${addresses[0]}:22`, { timeoutSeconds: 0.2 }))
  })

  const countFlows = (): number => Number(lab.in(lab.host, 'cat', '/proc/sys/net/netfilter/nf_conntrack_count'))

  function expectOthersServed(): void {
    expect(lab.answer(inOther, `udp:${clientAddress}:53`)).to.equal(`client ${hostAddress}`)
    expect(lab.answer(inOther, `udp:${clientAddress6}:53`)).to.equal(`client ${other.ipv6Addresses[0]}`)
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`other ${clientAddress}`)
    expect(lab.answer(lab.client, `udp:${other.ipv6Addresses[0]}:53`)).to.equal(`other ${clientAddress6}`)
  }

  for (const [name, from, flood] of [
    ['the guest opens them', inMany, [clientAddress, '40000']],
    ['the guest opens them with fragmented packets', inMany, [clientAddress, '40000', '2000']],
    ['the guest opens them from many addresses', inMany, [clientAddress6, '40000', '1', ...addresses]],
    [
      'the guest opens them from many addresses with fragmented packets',
      inMany,
      [clientAddress6, '40000', '2000', ...addresses],
    ],
    ['a client opens them to many addresses of the guest', lab.client, [addresses.join(), '40000']],
  ] as const)
    it(`are limited if ${name}, and other guests can still open connections`, () => {
      lab.tool(from, 'flood', ...flood)
      expect(countFlows()).to.be.within(14_000, 19_000)
      expectOthersServed()
    })

  it('are limited for IPv4 and IPv6 together', () => {
    lab.tool(inMany, 'flood', clientAddress, '20000')
    lab.tool(inMany, 'flood', clientAddress6, '20000', '1', ...addresses)
    expect(countFlows()).to.be.within(14_000, 19_000)
  })

  it('are deleted when the guest is detached, and connections of other guests stay', async () => {
    lab.tool(inMany, 'flood', clientAddress6, '5000', '1', ...addresses)
    lab.tool(inMany, 'flood', clientAddress, '5000')
    expectOthersServed()
    const listed = (...filter: string[]): string => lab.in(lab.host, 'conntrack', '-L', ...filter)
    const others = [
      ['-f', 'ipv4', '--orig-src', other.ipv4],
      ['-f', 'ipv6', '--orig-src', other.ipv6Addresses[0]!],
      ['-f', 'ipv6', '--reply-src', other.ipv6Addresses[0]!],
    ]
    expect(countFlows()).to.be.greaterThan(9000)
    await agent.call('detach', many)
    await agent.call('attach', many) // connections are deleted before their addresses are used again
    expect(countFlows()).to.be.lessThan(100)
    for (const filter of others) expect(listed(...filter)).to.not.equal('')
  })

  it('include pings to the gateway address, with one limit for all source addresses', () => {
    const ping = `import socket, sys
for source in sys.argv[1:]:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    sock.bind((source, 0))
    for number in range(100):
        sock.sendto(bytes([128, 0, 0, 0, 0, number, 0, 0]), ("fe80::1", 0, 0, socket.if_nametoindex("eth0")))
`
    lab.in(inMany, 'python3', '-c', ping, ...addresses)
    expect(countFlows()).to.be.within(1, 500)
  })

  it('continue if they began before the limit was reached', async () => {
    await lab.follow(lab.client, 'echo', '5001')
    const answers = await lab.follow(inMany, 'talk', clientAddress, '5001')
    await waitFor(() => answers.length > 10)
    // On a busy machine, the first connections of a flood may expire before its last ones are opened.
    const isFull = (): boolean => {
      lab.tool(inMany, 'flood', clientAddress, '40000')
      return lab.ask(inMany, `udp:${clientAddress}:53`, { timeoutSeconds: 0.3 }) === ''
    }
    await waitFor(isFull, { what: 'the refusal of another connection' })
    const count = answers.length
    await waitFor(() => answers.length > count + 10, { what: 'more answers on the open connection' })
  })
})
