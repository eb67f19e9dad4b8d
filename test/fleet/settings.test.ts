import { expect } from 'chai'
import { powerOrder, settingRequest, type WireChange } from '../support/host/agent-calls.js'
import { Guest, PortMapping } from '../../proto/gen/berth/agent/v1/guest.js'
import { Firewall, FirewallRule, LimitsChange, PortMappingChange } from '../../proto/gen/berth/agent/v1/network.js'
import type { AgentClient } from '../../gateway/fleet/agent-contract.js'
import { BerthError } from '../../shared/errors.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'

async function failureOf(work: Promise<unknown>): Promise<[string, string, string | undefined]> {
  try {
    await work
  } catch (error) {
    if (error instanceof BerthError) return [error.kind, error.code, error.field]
    throw error
  }
  throw new Error('accepted')
}

describe('settings that the gateway sends to an agent', function () {
  let test: TestFleet
  let agent: LabAgent
  let hostId: string
  let client: AgentClient
  before(async () => {
    test = await startTestFleet()
    const added = await test.addHost('one', { guests: 3 })
    ;[agent, hostId] = [added.agent, added.hostId]
    client = test.fleet.agent(hostId)
  })
  after(() => test.close())

  const seen = (name = 'sim-1'): Guest => test.fleet.view.findGuest(name)!.guest
  const change = async (wanted: WireChange, target: Parameters<typeof settingRequest>[1]): Promise<Guest> =>
    (await client.settings.changeSetting(settingRequest(wanted, target))).guest!
  const mapping = PortMapping.create({ protocol: 'tcp', containerPort: 80 })

  it('appear in the gateway’s view as soon as the view has reached the revision of the agent’s answer', async () => {
    const { uuid } = seen()
    const added = await change({ $case: 'addPortMapping', value: mapping }, { uuid })
    await test.fleet.reached(hostId, added.revision)
    expect(seen().portMappings).to.deep.equal(added.portMappings)
    expect(seen().revision).to.equal(added.revision)
    const expiry = await change({ $case: 'expiresAtMs', value: 1 }, { uuid, ifRevision: added.revision })
    await test.fleet.reached(hostId, expiry.revision)
    expect(seen()).to.include({ policyBlocked: true, policyReason: 'expired' })
  })

  it('stay unchanged if a change omits their field, but are changed by the value 0 or an empty text', async () => {
    const { uuid, limits } = seen('sim-2')
    const wanted = LimitsChange.fromPartial({ networkDownMbps: 0, ramMb: 1024 })
    const { limits: changed } = await change({ $case: 'limits', value: wanted }, { uuid })
    expect(changed).to.deep.equal({ ...limits, networkDownMbps: 0, ramMb: 1024 })
    await change({ $case: 'addPortMapping', value: { ...mapping, description: 'web' } }, { uuid })
    const update = { index: 1, change: PortMappingChange.fromPartial({ description: '' }) }
    const { portMappings } = await change({ $case: 'updatePortMapping', value: update }, { uuid })
    expect(portMappings[1]).to.include({ description: '', containerPort: 80, protocol: 'tcp' })
  })

  it('stay unchanged if the host cannot apply a change, and the error hides details of the host', async () => {
    const { uuid } = seen('sim-3')
    let refused = 0
    agent.host.wire.onAttach = () => {
      if (refused++ === 0) throw new Error('attach bt3: nft: died')
    }
    const added = change({ $case: 'addPortMapping', value: mapping }, { uuid })
    const refusal = await added.catch((error: unknown) => error)
    expect(refusal).to.be.instanceOf(BerthError).and.include({
      code: 'agent_error',
      message:
        'the host could not carry out "change setting": see the log of its agent; the earlier settings stay in effect',
    })
  })

  it('are refused with the error code of the agent', async () => {
    const { uuid, revision, portMappings } = seen('sim-3')
    const taken = { ...mapping, hostPort: portMappings[0]!.hostPort }
    const rule = FirewallRule.create({
      direction: 'in',
      protocol: 'icmp',
      action: 'DROP',
      network: 'all',
      port: '80',
    })
    const firewall = Firewall.create({ enabled: true, defaultAction: 'DROP', rules: [rule] })
    for (const [work, expected] of [
      [change({ $case: 'addPortMapping', value: taken }, { uuid }), ['conflict', 'port_conflict', 'host_port']],
      [change({ $case: 'removePortMapping', value: 9 }, { uuid }), ['not_found', 'not_found', undefined]],
      [change({ $case: 'firewall', value: firewall }, { uuid }), ['invalid', 'invalid_field', 'rules.0.port']],
      [
        change({ $case: 'resetTraffic', value: {} }, { uuid, ifRevision: revision + 1 }),
        ['conflict', 'precondition_failed', undefined],
      ],
      [
        change({ $case: 'assignIpv6', value: { count: 0, addresses: [] } }, { uuid }),
        ['exhausted', 'resource_exhausted', undefined],
      ],
    ] as const)
      expect(await failureOf(work)).to.deep.equal(expected)
    expect(seen('sim-3').revision).to.equal(revision)
  })

  it('prevent the start of a guest with “policy_blocked” if its expiry date is in the past', async () => {
    const { uuid } = seen()
    expect(await failureOf(client.operations.submitOperation(powerOrder('start', uuid)))).to.deep.equal([
      'forbidden',
      'policy_blocked',
      undefined,
    ])
  })

  it('include address pools with 4096 addresses', async () => {
    const items = Array.from({ length: 4096 }, (_, index) => ({
      address: `203.0.${97 + (index >> 8)}.${index & 255}`,
      interface: 'enp129s0f0np0.7',
      prefixLen: 19,
      gateway: '203.0.96.1',
    }))
    await client.routing.setRouting({
      ipv4Pool: { items },
      ipv6Prefixes: undefined,
      nat4Ports: undefined,
      isChecked: false,
    })
    const routing = await client.routing.getRouting({})
    expect(routing.ipv4Pool).to.deep.equal(items)
    expect(routing.ipv6Prefixes).to.deep.equal([])
  })

  it('are refused with “host_offline” while the agent is disconnected', async () => {
    await agent.stop()
    const { uuid } = seen('sim-2')
    const [kind, code] = await failureOf(client.settings.getFirewall({ uuid }))
    expect([kind, code]).to.deep.equal(['unavailable', 'host_offline'])
  })
})
