import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { readPool, replacePool } from '../../agent/network/addresses/address-tables.js'
import { readDeparted } from '../../agent/network/addresses/shared-pools.js'
import { MoveStore } from '../../gateway/fleet/moves/move-store.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { ipv6Address } from '../support/memory/memory-host.js'
import { MoveLab } from '../support/memory/move-lab.js'
import { waitFor } from '../support/wait.js'

const [first, second, third, outside] = ['203.0.113.1', '203.0.113.2', '203.0.113.3', '198.51.100.1']
const range = '203.0.113.0/24'

describe('two hosts that serve the same shared IPv6 pool', function () {
  let lab: MoveLab
  const kept = '2001:db8:1::7'
  before(async () => {
    const pool = { name: 'rack-6', range: '2001:db8:1::/64', interface: 'eth0' }
    lab = await MoveLab.start({ network: { shared_pools: [pool] } })
    for (const { host, domain } of [lab.source, lab.target]) {
      host.ipv6Addresses = [{ ...ipv6Address, address: '2001:0db8:0001:0000:0000:0000:0000:000a', prefixLength: 64 }]
      const prefix = { interface: 'eth0', address: '', prefix: '2001:db8:1::', prefixLen: 64, gateway: '' }
      await domain.routing.setRouting({ ipv6Prefixes: [prefix] })
    }
  })
  after(() => lab?.close())
  afterEach(async () => {
    lab.reset()
    await lab.fleet.removeGuests()
  })

  const addressesOf = ({ uuid }: Guest): string[] | undefined => lab.fleet.view.findGuest(uuid)?.guest.ipv6Addresses
  const placedBy = (agent: LabAgent, { uuid }: Guest): readonly string[] =>
    agent.host.wire.guests.get(uuid)?.ipv6Addresses ?? []

  it('keep the address of a guest that moves, and the source removes it before the target is the owner', async () => {
    const guest = await lab.addGuest({ ipv6Addresses: [kept, '2001:db8:2::7'] })
    await lab.source.domain.reconciler.network.ensure(['addresses'])
    expect(placedBy(lab.source, guest)).to.include(kept)
    const plan = await lab.fleet.relocation.moves.check(lab.requestFor(guest))
    expect(plan.network.ipv6Addresses[0]).to.equal(kept)
    expect(plan.network.ipv6Addresses[1]).to.match(/^2001:db8:1:/)
    let left: readonly string[] | undefined
    lab.target.observer = ({ step, phase }) => {
      if (step === 'configure' && phase === 'before-run') left = placedBy(lab.source, guest)
    }
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    expect(left).to.deep.equal([])
    expect(addressesOf(guest)?.[0]).to.equal(kept)
    expect(placedBy(lab.target, guest)).to.include(kept)
  })

  it('return the address to the source if the gateway cancels the move after the source has removed it', async () => {
    const guest = await lab.addGuest({ ipv6Addresses: [kept] })
    const { network } = lab.source.domain.context
    const moves = new MoveStore(lab.store)
    let left: readonly string[] | undefined
    network.withdraw = async (settings) => {
      Reflect.deleteProperty(network, 'withdraw')
      await network.withdraw(settings)
      left = placedBy(lab.source, guest)
      expect(await moves.decide((await moves.find(guest.uuid))!, 'cancel')).to.equal(true)
    }
    expect(await lab.move(guest)).to.equal('failed')
    expect(left).to.deep.equal([])
    await lab.expectOnlyAt('host-a', guest)
    await waitFor(() => placedBy(lab.source, guest).includes(kept), { what: 'the address on the source' })
    expect(addressesOf(guest)).to.deep.equal([kept])
  })

  it('assign a new address if a guest of the target has the same one', async () => {
    const guest = await lab.addGuest({ ipv6Addresses: [kept] })
    await lab.fleet.addGuest({ ipv6Addresses: [kept] }, 'host-b')
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    expect(addressesOf(guest)).to.have.length(1).and.to.not.include(kept)
  })
})

describe('two hosts that serve the same shared pool', function () {
  let lab: MoveLab
  before(async () => {
    lab = await MoveLab.start({ network: { shared_pools: [{ name: 'rack', range }] } })
  })
  after(() => lab?.close())
  beforeEach(() => {
    setPool(lab.source, [first, second])
    setPool(lab.target, [third])
  })
  afterEach(async () => {
    lab.reset()
    await lab.fleet.removeGuests()
  })

  const dbOf = (agent: LabAgent) => agent.domain.changes.db
  const poolOf = (agent: LabAgent): string[] => readPool(dbOf(agent)).map(({ address }) => address)
  function setPool(agent: LabAgent, addresses: readonly string[]): void {
    agent.domain.changes.transaction(() => {
      dbOf(agent).prepare("DELETE FROM settings WHERE key = 'departed_ipv4s'").run()
      const items = addresses.map((address) => ({ address, interface: 'eth0', prefixLen: 24, gateway: '' }))
      replacePool(dbOf(agent), items)
    })
  }
  const addressesOf = ({ uuid }: Guest): string[] | undefined => lab.fleet.view.findGuest(uuid)?.guest.publicIpv4s
  const placedBy = (agent: LabAgent, { uuid }: Guest): readonly string[] =>
    agent.host.wire.guests.get(uuid)?.publicIpv4s ?? []

  it('keep the address of a guest that moves, and the pool of the target gets it', async () => {
    const guest = await lab.addGuest({ publicIpv4s: [first] })
    const plan = await lab.fleet.relocation.moves.check(lab.requestFor(guest))
    expect(plan.network.publicIpv4s).to.deep.equal([first])
    expect(poolOf(lab.target), 'after the dry run').to.deep.equal([third])
    const states: string[] = []
    lab.source.observer = ({ step, phase }) => {
      if (step === 'last_changes' && phase === 'after-run')
        states.push(`target has ${placedBy(lab.target, guest).join()}, pool ${poolOf(lab.target).join()}`)
    }
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    expect(states).to.deep.equal([`target has , pool ${third}`])
    expect(addressesOf(guest)).to.deep.equal([first])
    expect(placedBy(lab.target, guest)).to.deep.equal([first])
    expect([poolOf(lab.source), poolOf(lab.target)]).to.deep.equal([[second], [first, third]])
  })

  it('remove the address from the source before the target is the owner', async () => {
    const guest = await lab.addGuest({ publicIpv4s: [first] })
    await lab.source.domain.reconciler.network.ensure(['addresses'])
    expect(placedBy(lab.source, guest)).to.deep.equal([first])
    let left: readonly string[] | undefined
    lab.target.observer = ({ step, phase }) => {
      if (step === 'configure' && phase === 'before-run') left = placedBy(lab.source, guest)
    }
    await lab.moveDone(guest)
    expect(left).to.deep.equal([])
  })

  it('refuse to add the address to the pool of the former host, until the guest returns', async () => {
    const guest = await lab.addGuest({ publicIpv4s: [first] })
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    const item = { address: first, interface: 'eth0', prefixLen: 24, gateway: '' }
    const change = lab.source.domain.routing.setRouting({ ipv4Pool: [item] })
    expect(await change.catch((error: Error) => error.message)).to.contain('belongs to another host')
    await lab.fleet.relocation.moves.begin({ ...lab.requestFor(guest), toHostId: 'host-a' })
    await lab.expectOnlyAt('host-a', guest)
    expect(addressesOf(guest)).to.deep.equal([first])
    expect([poolOf(lab.source), poolOf(lab.target)]).to.deep.equal([[first, second], [third]])
    expect([...readDeparted(dbOf(lab.source))]).to.deep.equal([])
  })

  it('leave the address in the pool of the source if the move fails', async () => {
    const guest = await lab.addGuest({ publicIpv4s: [first] })
    lab.target.host.faults.prepare = () => Promise.reject(new Error('the disk is full'))
    expect(await lab.move(guest)).to.equal('failed')
    delete lab.target.host.faults.prepare
    await lab.expectOnlyAt('host-a', guest)
    expect([poolOf(lab.source), poolOf(lab.target)]).to.deep.equal([[first, second], [third]])
    await waitFor(() => placedBy(lab.source, guest).includes(first))
  })

  it('assign a new address if the guest has one outside the pool', async () => {
    setPool(lab.source, [outside])
    const guest = await lab.addGuest({ publicIpv4s: [outside] })
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    expect(addressesOf(guest)).to.deep.equal([third])
    expect([poolOf(lab.source), poolOf(lab.target)]).to.deep.equal([[outside], [third]])
  })

  it('keep the address of a moving guest only once if the reservation for the move is repeated', async () => {
    const guest = await lab.addGuest({ publicIpv4s: [first] })
    const request = { ...lab.requestFor(guest), operationId: randomUUID() }
    const one = await lab.fleet.relocation.moves.begin(request)
    const other = await lab.fleet.relocation.moves.begin(request)
    expect(one.network.publicIpv4s).to.deep.equal(other.network.publicIpv4s)
    await lab.expectOnlyAt('host-b', guest)
    expect(addressesOf(guest)).to.deep.equal([first])
  })
})
