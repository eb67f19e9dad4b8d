import { expect } from 'chai'
import type { GuestNetwork, NatMapping } from '../../agent/network/contract.js'
import {
  clientAddress,
  clientAddress6,
  hostAddress,
  hostAddress6,
  NetworkLab,
  type AgentNetwork,
} from '../support/network-lab.js'
import { waitFor } from '../support/wait.js'

/*
 * A guest that sends from the port by which another is mapped, and the client it sent to, which then asks the other:
 * what is tracked comes before mappings.
 */

const tries = { timeoutSeconds: 0.3 }

describe('ports of guests that leave in the name of the host', function () {
  this.timeout(60_000)
  const lab = new NetworkLab('btestshad')
  const mapping: NatMapping = {
    ...{ protocol: 'udp', hostIp: '', hostPort: 20002, hostPortEnd: 20002 },
    containerPort: 53,
  }
  const a = lab.guest(11, [], { ipv6Addresses: ['fd77::11'] })
  const b = lab.guest(12, [mapping], { ipv6Addresses: ['fd77::12'] })
  const publicly = lab.guest(13, [], { publicIpv4s: ['198.51.100.10'] })
  const all = [a, b, publicly]
  const [inA, inB, inPublic] = all.map((guest) => lab.namespaceOf(guest)) as [string, string, string]
  let agent: AgentNetwork

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure(all)
    for (const guest of all) lab.plug(guest)
    await lab.serve(inA, a.device, 'udp:20002')
    await lab.serve(inB, b.device, 'udp:53')
    await lab.serve(lab.client, 'client', 'tcp:80')
    for (const address of [clientAddress, clientAddress6])
      await waitFor(() => lab.ask(inA, `tcp:${address}:80`), { what: `the way out to ${address}` })
  })

  after(async () => {
    await agent.end()
    lab.remove()
  })

  for (const [host, client] of [
    [hostAddress, clientAddress],
    [hostAddress6, clientAddress6],
  ] as const)
    it(`do not draw to them what is for another, ${client.includes(':') ? 'IPv6' : 'IPv4'}`, () => {
      lab.ask(inA, `udp:${client}:5353`, { sport: 20002, ...tries })
      expect(lab.ask(lab.client, `udp:${host}:20002`, { sport: 5353 })).to.equal(`bt12 ${client}`)
    })

  it('are kept where no guest is given them, and others lie there', () => {
    expect(leftBy(inA, a, { sport: 50_000, port: 7001 })).to.equal(50_000)
    for (const sport of [53, 5000, 20002])
      expect(leftBy(inA, a, { sport, port: 7002 })).to.be.within(30_000, 65_535)
  })

  it('are kept by a guest that has the address for itself', () => {
    expect(leftBy(inPublic, publicly, { sport: 20002, port: 7003 })).to.equal(20002)
  })

  it('are no matter to a ping', () => {
    expect(lab.probe(inA, [`icmp,${clientAddress}`, `icmp,${clientAddress6}`])).to.deep.equal([true, true])
  })

  it('are others when guests are given others', async () => {
    const given = { start: 20_000, end: 59_999 }
    expect(await agent.ensure(all, given)).to.deep.equal(['nft tables rebuilt'])
    expect(await agent.ensure(all, given)).to.deep.equal([])
    expect(leftBy(inA, a, { sport: 50_000, port: 7004 })).to.be.within(1024, 19_999)
    expect(lab.ask(lab.client, `udp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    expect(await agent.ensure(all)).to.deep.equal(['nft tables rebuilt'])
  })

  it('cannot be chosen when guests are given nearly all', async () => {
    await agent.ensure(all, { start: 1024, end: 65_535 })
    // By chance it is the same once in 64,512 times.
    const left = [7005, 7006].map((port) => leftBy(inA, a, { sport: 20002, port }))
    expect(left).to.not.deep.equal([20002, 20002])
    for (const port of left) expect(port).to.be.within(1024, 65_535)
    await agent.ensure(all)
  })

  interface Sent {
    readonly sport: number
    /** Of the client. */
    readonly port: number
  }

  /** The host's port that a datagram of the guest has at the client. */
  function leftBy(inside: string, { ipv4 }: GuestNetwork, { sport, port }: Sent): number {
    lab.ask(inside, `udp:${clientAddress}:${port}`, { sport, ...tries })
    const filter = ['--orig-src', ipv4, '--orig-port-src', String(sport), '--orig-port-dst', String(port)]
    const flow = lab.in(lab.host, 'conntrack', '-L', '-p', 'udp', ...filter)
    return Number(/dport=\d+ .*dport=(\d+)/.exec(flow)?.[1])
  }
})
