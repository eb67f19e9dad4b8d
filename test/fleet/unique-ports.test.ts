import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import type { GatewayFleet } from '../../gateway/fleet/fleet.js'
import type { GuestView } from '../../gateway/fleet/contract.js'
import type { Store } from '../../gateway/store/store.js'
import type { PortMapping } from '../../proto/gen/berth/agent/v1/guest.js'
import { wireMapping } from '../support/host/agent-calls.js'
import { codeOf, creationRequest, guestSpec, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

const start = 30_000
/** Number of ports in the range of each host. */
const count = 20
const config = { network: { nat_ports: { start, end: start + count - 1 } } }

describe('host ports that are unique in a fleet with two gateways and two hosts', function () {
  let test: TestFleet
  let gateways: GatewayFleet[]
  let secondStore: Store | undefined
  before(async () => {
    test = await startTestFleet()
    for (const name of ['one', 'two']) await test.addHost(name, { config })
    await test.fleet.ports.unique.update(() => true)
    secondStore = await test.redis.openStore(test.store.key(''))
    const other = await test.startGateway(secondStore)
    gateways = [test.fleet, other]
    await waitFor(() => other.view.onlineHostIds.length === 2, { what: 'both hosts at the second gateway' })
  })
  after(async () => {
    await test?.close()
    await secondStore?.close()
  })

  const mapped = (hostPort: number) =>
    wireMapping({ hostPort, hostPortEnd: hostPort, containerPort: 80, containerPortEnd: 80 })
  const create = (at: number, mapping: PortMapping, name = `guest-${at}`) =>
    gateways[at % 2]!.createGuest(creationRequest(name, { spec: { ...guestSpec, portMappings: [mapping] } }))
  const ports = (): number[] =>
    [...test.fleet.view.guests()].flatMap(({ guest }) => guest.portMappings.map(({ hostPort }) => hostPort))
  const find = (name: string): GuestView => test.fleet.view.findGuest(name)!

  it('are given to one guest each, also if many guests are created at once', async () => {
    await Promise.all(Array.from({ length: count - 2 }, (_, at) => create(at, mapped(0))))
    await waitFor(() => ports().length === count - 2, { what: 'all guests' })
    expect(new Set(ports()).size).to.equal(count - 2)
    expect(new Set([...test.fleet.view.guests()].map(({ hostId }) => hostId)).size).to.equal(2)
  })

  it('are refused if another guest has them, even on another host', async () => {
    const [taken] = ports()
    for (const [at] of gateways.entries())
      expect(await codeOf(create(at, mapped(taken!), 'refused'))).to.equal('port_conflict')
  })

  it('are given to only one of two guests on different hosts that request the same port at once', async () => {
    const hosts = test.fleet.view.onlineHostIds.map((id) => [...test.fleet.view.guestsOf(id)][0]!)
    const [free] = Array.from({ length: count }, (_, at) => start + at).filter((port) => !ports().includes(port))
    const add = (gateway: GatewayFleet, guest: GuestView) =>
      gateway.ports.change({ guest, operationId: randomUUID(), wanted: mapped(free!), mayName: true }, (value) =>
        changeMapping(gateway, guest, value),
      )
    const codes = await Promise.all(hosts.map((guest, at) => codeOf(add(gateways[at]!, guest))))
    expect(codes.toSorted()).to.deep.equal(['ok', 'port_conflict'])
  })

  it('are exhausted when the guests of all hosts have them', async () => {
    await create(0, mapped(0), 'last')
    expect(await codeOf(create(1, mapped(0), 'refused'))).to.equal('resource_exhausted')
  })

  it('stay the same when guests move', async () => {
    const [from, to] = test.fleet.view.onlineHostIds
    const before = [...test.fleet.view.guestsOf(from!)].slice(0, 3)
    for (const { guest } of before) {
      await waitFor(() => find(guest.name).guest.status === 'running', { what: `${guest.name} running` })
      const how = { toHostId: to!, offline: false, bandwidthMbps: 0, requestedBy: 'admin' }
      const request = { operationId: randomUUID(), guest: find(guest.name), ...how }
      const { network } = await test.fleet.relocation.moves.check(request)
      expect(network.portMappings).to.deep.equal(guest.portMappings)
      await test.fleet.relocation.moves.begin(request)
      await waitFor(() => find(guest.name).hostId === to, { what: `${guest.name} on the target` })
      expect(find(guest.name).guest.portMappings).to.deep.equal(guest.portMappings)
    }
  })
})

async function changeMapping(gateway: GatewayFleet, { hostId, guest }: GuestView, value: PortMapping): Promise<void> {
  const change = { $case: 'addPortMapping', value } as const
  const request = { uuid: guest.uuid, operationId: randomUUID(), change, ifRevision: 0 }
  const { guest: changed } = await gateway.agent(hostId).settings.changeSetting(request)
  await gateway.reached(hostId, changed!.revision)
}
