import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { PoolAddress, SetRoutingRequest } from '../../../proto/gen/berth/agent/v1/network.js'
import { BerthError } from '../../../shared/errors.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { startTestFleet, type TestFleet } from '../../support/gateway/test-fleet.js'
import { waitFor } from '../../support/wait.js'

const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const base = { virtualization: 'lxc', templateId: 'debian-12', limits, sshAuthMode: 'auto_password' }
const unbounded = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }
const ipv4 = '203.0.113.9'

describe('addresses from the pools of the hosts', function () {
  let test: TestFleet
  let asked: string[] = []
  const hosts: { hostId: string; agent: LabAgent }[] = []
  before(async () => {
    test = await startTestFleet()
    // Each host has more guests than the one before, because the gateway requests addresses from emptier hosts first.
    for (const [index, name] of ['empty', 'fuller', 'fullest'].entries())
      hosts.push(
        await test.addHost(name, {
          guests: index * 5,
          firstId: index * 100 + 1,
          prepare: (agent) => {
            for (const { uuid } of agent.guests()) agent.update(uuid, { limits: { ...limits, ...unbounded } })
            agent.host.wire.onChoose = () => void asked.push(name)
          },
        }),
      )
  })
  after(() => test.close())
  beforeEach(() => (asked = []))
  afterEach(async () => {
    for (const [index, { hostId, agent }] of hosts.entries()) {
      await waitFor(() => agent.domain.engine.stats().running === 0, { what: 'the end of its operations' })
      for (const { uuid, name } of agent.guests()) if (!name.startsWith('sim-')) agent.removeGuest(uuid)
      await setPools(index, {})
      await test.fleet.reached(hostId, agent.revision)
    }
  })

  const setPools = (index: number, { ipv4: address, prefix }: { ipv4?: string; prefix?: string }) =>
    test.fleet.agent(hosts[index]!.hostId).routing.setRouting(
      SetRoutingRequest.fromPartial({
        ipv4Pool: { items: address ? [{ address }] : [] },
        ipv6Prefixes: { items: prefix ? [{ prefix, prefixLen: 64 }] : [] },
      }),
    )
  const create = (name: string, spec: object, more: object = {}) =>
    test.fleet.createGuest({
      operationId: randomUUID(),
      name,
      requestedBy: 'api:test',
      ...more,
      spec: GuestSpec.fromPartial({ ...base, ...spec }),
    })
  const refusalOf = async (work: Promise<unknown>) => {
    try {
      await work
    } catch (error) {
      return error instanceof BerthError ? [error.code, error.field] : error
    }
    return 'created'
  }

  for (const [name, spec] of [
    ['any IPv4 address', { ipv4Count: 1 }],
    ['any IPv6 address', { ipv6Count: 1 }],
    ['a given IPv4 address', { publicIpv4s: [ipv4] }],
    ['a given IPv6 address', { ipv6Addresses: ['2001:db8::1'] }],
  ] as const)
    it(`are taken from the least loaded suitable host for ${name}`, async () => {
      await setPools(2, { ipv4, prefix: '2001:db8::' })
      const { hostId, response } = await create(`wants-${name.replaceAll(' ', '-')}`, spec)
      expect(asked).to.deep.equal(['empty', 'fuller', 'fullest'])
      expect(hostId).to.equal(hosts[2]!.hostId)
      const { publicIpv4s, ipv6Addresses } = response.guest!
      expect([...publicIpv4s, ...ipv6Addresses]).to.have.length(1)
    })

  it('are requested from one host after another, until a host has enough addresses', async () => {
    await setPools(0, { ipv4 })
    await setPools(1, { ipv4: '203.0.113.10' })
    await create('first', { ipv4Count: 1 })
    await create('plain', {})
    expect(asked).to.deep.equal(['empty', 'empty'])
    await create('second', { ipv4Count: 1 })
    expect(asked).to.deep.equal(['empty', 'empty', 'empty', 'fuller'])
  })

  it('are refused if no host has enough addresses, and the guest’s name is free again', async () => {
    await setPools(1, { ipv4 })
    expect(await refusalOf(create('two', { ipv4Count: 2 }))).to.deep.equal(['resource_exhausted', undefined])
    expect(await refusalOf(create('two', { publicIpv4s: ['198.51.100.1'] }))).to.deep.equal([
      'invalid_field',
      'public_ipv4s',
    ])
    const mixed = { publicIpv4s: [ipv4], ipv4Count: 1 }
    expect(await refusalOf(create('two', mixed))).to.deep.equal(['resource_exhausted', undefined])
    expect(asked).to.have.length(9)
    await create('two', { ipv4Count: 1 })
  })

  it('are requested only from the host that the request names', async () => {
    await setPools(1, { ipv4 })
    const named = create('named', { ipv4Count: 1 }, { hostId: hosts[0]!.hostId })
    expect(await refusalOf(named)).to.deep.equal(['resource_exhausted', undefined])
    expect(asked).to.deep.equal(['empty'])
  })

  it('are read from an agent’s answer of up to 16 MiB, although an agent’s answer about a guest is limited to 1 MiB', async () => {
    const { hostId, agent } = hosts[1]!
    const { settings, routing } = test.fleet.agent(hostId)
    const { routing: pools, policy } = agent.domain
    const honest = pools.getRouting()
    const large = (megabytes: number) => 'x'.repeat(megabytes * 1024 * 1024)
    const answerOf = async (megabytes: number) => {
      const ipv4Pool = [PoolAddress.create({ address: ipv4, interface: large(megabytes) })]
      pools.getRouting = () => ({ ...honest, ipv4Pool })
      return (await routing.getRouting({})).ipv4Pool[0]?.interface.length
    }
    for (const megabytes of [2, 15]) expect(await answerOf(megabytes)).to.equal(large(megabytes).length)
    expect(await refusalOf(answerOf(17))).to.deep.equal(['agent_error', undefined])
    expect(await answerOf(1)).to.equal(large(1).length)
    const [{ uuid } = { uuid: '' }] = agent.guests()
    expect((await settings.getTraffic({ uuid })).periodStart).to.match(/^\d{4}-\d\d-01$/)
    const use = policy.readUse(agent.guests()[0]!)
    policy.readUse = () => ({ ...use, periodStart: large(2) })
    expect(await refusalOf(settings.getTraffic({ uuid }))).to.deep.equal(['agent_error', undefined])
    delete (pools as Partial<typeof pools>).getRouting
    delete (policy as Partial<typeof policy>).readUse
  })
})
