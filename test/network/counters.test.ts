import { expect } from 'chai'
import type { ByteCounters } from '../../agent/network/contract.js'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { tcp } from '../support/network/network-pair.js'
import { waitFor } from '../support/wait.js'

/* Tests the counts of real packets, and events that must not reset the counts. */

const publicA = '198.51.100.71'

describe('byte counters of guests', function () {
  const lab = new NetworkLab('btestcnt')
  const [a, b, plain] = [
    lab.guest(11, [tcp(20001)], {
      publicIpv4s: [publicA],
      ipv6Addresses: [`${guestPrefix6}11`, `${guestPrefix6}1:11`],
    }),
    lab.guest(12, [], { ipv6Addresses: [`${guestPrefix6}12`] }),
    lab.guest(13),
  ]
  const all = [a, b, plain]
  const [inA, inB, inPlain] = all.map((guest) => lab.namespaceOf(guest)) as [string, string, string]
  let agent: AgentNetwork

  const read = async (): Promise<Record<string, ByteCounters>> =>
    (await agent.call('counters')) as Record<string, ByteCounters>
  const grown = async (work: () => unknown, uuid = a.uuid): Promise<ByteCounters> => {
    const before = (await read())[uuid]!
    await work()
    const after = (await read())[uuid]!
    return { rxBytes: after.rxBytes - before.rxBytes, txBytes: after.txBytes - before.txBytes }
  }
  const ping = (from: string, to: string, bytes: number): unknown =>
    lab.in(from, 'ping', '-q', '-c4', '-i0.01', '-W1', '-s', String(bytes), to)

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure(all)
    for (const guest of all) {
      lab.plug(guest)
      await lab.serve(lab.namespaceOf(guest), guest.device, 'tcp:22', 'udp:3005')
    }
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    for (const inside of [inA, inB, inPlain]) await waitFor(() => lab.ask(inside, `tcp:${clientAddress}:80`))
    await waitFor(() => lab.ask(inA, `tcp:${clientAddress6}:80`))
    for (const at of [lab.client, inA]) await lab.follow(at, 'sink', '5300')
  })
  after(() => lab.remove())

  it('count the headers of IP packets, per direction, for IPv4 and IPv6', async () => {
    expect(await grown(() => ping(lab.client, publicA, 972))).to.deep.equal({
      rxBytes: 4000,
      txBytes: 4000,
    })
    expect(await grown(() => ping(lab.client, `${guestPrefix6}11`, 952))).to.deep.equal({
      rxBytes: 4000,
      txBytes: 4000,
    })
    const sent = await grown(() => lab.tool(inA, 'flood', clientAddress, '100'))
    expect(sent.txBytes).to.equal(100 * 29)
  })

  for (const [name, segments, least] of [
    ['in packets of one segment each', 1, 1.03],
    ['in large packets that are segmented later', 65_535, 1],
  ] as const)
    for (const [from, to, way] of [
      [inA, clientAddress, 'txBytes'],
      [lab.client, publicA, 'rxBytes'],
    ] as const)
      it(`count a TCP transfer with its headers in ${way} if it is sent ${name}`, async () => {
        const payload = 20e6
        const handshake = 1000
        lab.in(from, 'ip', 'link', 'set', 'dev', 'eth0', 'gso_max_segs', String(segments))
        const counted = await grown(() =>
          expect(lab.tool(from, 'upload', to, '5300', String(payload))).to.equal(String(payload)),
        )
        expect(counted[way]).to.be.within(payload * least, payload * 1.04 + handshake)
        expect(counted.rxBytes + counted.txBytes, 'acknowledged').to.be.below(payload * 1.08)
      })

  it('do not count traffic that stays on the host, or packets that are dropped', async () => {
    expect(await grown(() => lab.ask(inB, `tcp:${publicA}:22`))).to.deep.equal({ rxBytes: 0, txBytes: 0 })
    expect(await grown(() => lab.ask(lab.host, `tcp:${publicA}:22`))).to.deep.equal({
      rxBytes: 0,
      txBytes: 0,
    })
    const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
    await agent.call('attach', { ...a, firewall })
    expect(await grown(() => lab.ask(lab.client, `udp:${publicA}:3005`, { timeoutSeconds: 0.3 }))).to.deep.equal({
      rxBytes: 0,
      txBytes: 0,
    })
    await agent.call('attach', a)
  })

  it('count traffic between guests of the host if configured', async () => {
    await agent.end()
    agent = lab.agent({ countInternal: true })
    await agent.ensure(all)
    const exchanged = { rxBytes: 4000, txBytes: 4000 }
    for (const { uuid } of [a, b]) expect(await grown(() => ping(inB, publicA, 972), uuid)).to.deep.equal(exchanged)
    expect(await grown(() => ping(inB, `${guestPrefix6}11`, 952), b.uuid)).to.deep.equal(exchanged)
    await agent.end()
    agent = lab.agent()
    await agent.ensure(all)
    expect(await grown(() => ping(inB, publicA, 972))).to.deep.equal({ rxBytes: 0, txBytes: 0 })
  })

  it('continue when the guest changes, the agent restarts, or deleted nft tables are repaired', async () => {
    ping(lab.client, publicA, 972)
    const before = await read()
    await agent.call('attach', { ...a, portMappings: [] })
    await agent.call('attach', a)
    expect(await read()).to.deep.equal(before)
    const fresh = lab.agent()
    await fresh.ensure(all)
    expect(await fresh.call('counters')).to.deep.equal(before)
    await fresh.end()
    lab.in(lab.host, 'nft', 'flush', 'ruleset')
    expect(await read()).to.deep.equal({})
    expect(await agent.ensure(all)).to.deep.equal(['nft tables created'])
    expect(await read()).to.deep.equal(before)
    expect(await grown(() => ping(lab.client, publicA, 972))).to.deep.equal({
      rxBytes: 4000,
      txBytes: 4000,
    })
  })

  it('do not change when addresses of the guest are added and removed', async () => {
    ping(lab.client, `${guestPrefix6}1:11`, 952)
    ping(inA, clientAddress6, 952)
    const { [a.uuid]: before } = await read()
    await agent.call('attach', { ...a, ipv6Addresses: [`${guestPrefix6}11`] })
    expect((await read())[a.uuid]).to.deep.equal(before)
    await agent.call('attach', { ...a, ipv6Addresses: [] })
    expect((await read())[a.uuid]).to.deep.equal(before)
    await agent.call('attach', a)
    expect((await read())[a.uuid]).to.deep.equal(before)
  })

  for (const [name, leave] of [
    ['was detached', () => agent.call('detach', plain)],
    ['was removed', () => agent.ensure(all.filter(({ uuid }) => uuid !== plain.uuid))],
  ] as const)
    it(`start at zero for a new owner of an address if the old owner ${name} while nft had no tables`, async () => {
      lab.ask(inPlain, `udp:${clientAddress}:53`)
      expect((await read())[plain.uuid]!.txBytes).to.be.greaterThan(0)
      lab.in(lab.host, 'nft', 'flush', 'ruleset')
      await leave()
      await agent.call('attach', { ...plain, uuid: 'another' })
      expect((await read())['another']).to.deep.equal({ rxBytes: 0, txBytes: 0 })
      await agent.call('detach', { ...plain, uuid: 'another' })
      await agent.call('attach', plain)
    })

  it('start at zero for the next guest that gets the address of a former guest', async () => {
    await agent.call('detach', plain)
    await agent.call('attach', { ...plain, uuid: 'another' })
    expect((await read())['another']).to.deep.equal({ rxBytes: 0, txBytes: 0 })
    await agent.call('attach', plain)
  })
})
