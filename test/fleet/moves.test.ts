import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { getIdentity } from '../../agent/enrollment/identity.js'
import { changeOwnership } from '../../agent/guests/moves/change-ownership.js'
import { connectTarget } from '../../agent/guests/moves/connect-target.js'
import { FrameStream } from '../../agent/guests/moves/frame-stream.js'
import { openTicketKey } from '../../agent/guests/moves/ticket-key.js'
import type { MoveInput } from '../../agent/guests/moves/move-input.js'
import { MoveStore } from '../../gateway/fleet/moves/move-store.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../shared/errors.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { MoveLab } from '../support/memory/move-lab.js'
import { waitFor } from '../support/wait.js'

describe('a fleet that moves guests between hosts', function () {
  let lab: MoveLab
  before(async () => {
    lab = await MoveLab.start()
  })
  after(() => lab?.close())
  afterEach(() => lab?.reset())

  it('moves a running guest, and shows it as moved instead of removed', async () => {
    const guest = await lab.addGuest()
    const events: string[] = []
    const stop = lab.fleet.view.changes.listen((change) => {
      if (change.kind === 'guest' && !change.after) events.push('removed')
      if (change.kind === 'guest' && change.before && change.after && change.before.hostId !== change.after.hostId)
        events.push('moved')
    })
    await lab.moveDone(guest)
    stop()
    await lab.expectOnlyAt('host-b', guest)
    expect(events).to.deep.equal(['moved'])
  })

  for (const [name, fields] of [
    ['a running virtual machine', { virtualization: 'kvm' }],
    ['a running container', {}],
  ] as const)
    it(`shuts ${name} down before the offline copy of the disk, and starts it on the target`, async () => {
      await lab.fleet.runMachines('host-a', 'host-b')
      const guest = await lab.addGuest(fields)
      let wasRunning: boolean | undefined
      lab.source.observer = ({ step, phase }) => {
        if (step === 'copy' && phase === 'before-run') wasRunning = lab.source.host.driver.running.has(guest.uuid)
      }
      await lab.moveDone(guest, { offline: true })
      expect(wasRunning).to.equal(false)
      await lab.expectOnlyAt('host-b', guest)
    })

  it('refuses to move a running virtual machine if it cannot move live and no shutdown is permitted', async () => {
    await lab.fleet.runMachines('host-a', 'host-b')
    const guest = await lab.addGuest({ virtualization: 'kvm' })
    expect(await codeOf(lab.fleet.relocation.moves.begin(lab.requestFor(guest)))).to.equal('offline_required')
    const { certificatePem: ticket } = getIdentity(join(lab.source.stateDir, 'identity'))
    const target = { toHostId: 'host-b', toAddress: 'b:1', toSerials: [], ticket, bandwidthMbps: 0 }
    const how = { offline: false, live: false, maxDowntimeMs: 0, keptIpv4s: [] }
    const value = { uuid: guest.uuid, generation: 0, ...target, ...how }
    const order = { $case: 'migrate', value } as const
    const submitted = lab.fleet.agent('host-a').operations.submitOperation({
      operationId: randomUUID(),
      requestedBy: 'admin',
      order,
    })
    expect(await codeOf(submitted)).to.equal('offline_required')
  })

  it('starts a virtual machine on its host again if its offline move fails', async () => {
    await lab.fleet.runMachines('host-a', 'host-b')
    const guest = await lab.addGuest({ virtualization: 'kvm' })
    lab.source.observer = ({ step, phase }) => {
      if (step === 'copy' && phase === 'before-run') throw new Error('a fault of the test')
    }
    expect(await lab.move(guest, { offline: true })).to.equal('failed')
    await lab.expectOnlyAt('host-a', guest)
  })

  it('moves a stopped virtual machine, which stays stopped', async () => {
    await lab.fleet.runMachines('host-a', 'host-b')
    const guest = await lab.addGuest({ virtualization: 'kvm', status: 'stopped' })
    await lab.moveDone(guest)
    await waitFor(() => lab.fleet.view.findGuest(guest.uuid)?.hostId === 'host-b')
    expect(lab.fleet.view.findGuest(guest.uuid)?.guest.virtualization).to.equal('kvm')
    expect(lab.target.host.driver.running.has(guest.uuid)).to.equal(false)
  })

  it('plans a move without reserving anything on the target', async () => {
    const guest = await lab.addGuest()
    const plan = await lab.fleet.relocation.moves.check({
      guest: lab.fleet.view.findGuest(guest.uuid)!,
      toHostId: 'host-b',
      offline: false,
    })
    expect(plan.toHostId).to.equal('host-b')
    expect(plan.network.portMappings.map(({ hostPort }) => hostPort)).to.deep.equal(
      guest.portMappings.map(({ hostPort }) => hostPort),
    )
    expect(lab.target.guests().some(({ uuid }) => uuid === guest.uuid)).to.equal(false)
  })

  it('refuses to move a guest to its own host', async () => {
    const guest = await lab.addGuest()
    const asked = { ...lab.requestFor(guest), toHostId: 'host-a' }
    const refused = await lab.fleet.relocation.moves.begin(asked).catch((error: unknown) => error)
    expect(refused).to.include({ code: 'invalid_state' })
  })

  it('refuses a target without enough unallocated memory', async () => {
    const guest = await lab.addGuest()
    const request = {
      generation: 0,
      fromHostId: 'host-a',
      guest,
      overcommit: { cpu: 0, ram: 0.0001, disk: 0 },
      sharedPools: [],
      liveFacts: '',
    }
    for (const moveId of ['', 'm'])
      expect(await codeOf(lab.target.domain.arrivals.reservations.expect({ ...request, moveId }))).to.equal(
        'resource_exhausted',
      )
    expect(findAt(lab.target, guest)).to.equal(undefined)
  })

  it('deletes the copy and the reservations on the target if the store has lost the move', async () => {
    const guest = await lab.addGuest()
    const { uuid } = guest
    await expectAt(lab.target, guest, 'lost', 0)
    lab.target.host.volumes.add(uuid)
    lab.source.host.driver.running.delete(uuid)
    lab.source.journal((journal) => {
      changeOwnership(journal, uuid, { kind: 'leave', moveId: 'lost', generation: 0 })
      changeOwnership(journal, uuid, { kind: 'hand_over' })
    })
    await new MoveStore(lab.store).recover({ uuid, hostId: 'host-a', moveId: 'lost', generation: 0 })
    await lab.expectOnlyAt('host-a', guest)
  })

  it('refuses the ticket of an ended move, and a ticket for another host', async () => {
    const guest = await lab.addGuest()
    const request = lab.requestFor(guest)
    await lab.fleet.relocation.moves.begin(request)
    await waitFor(() => lab.statusOf(request.operationId) === 'done')
    await lab.expectOnlyAt('host-b', guest)
    const { input } = lab.source.domain.engine.store.findJournaled(request.operationId)!
    expect(await listAt(lab.target, guest.uuid, input as MoveInput)).to.equal('connection_lost')
    const elsewhere = { ...(input as MoveInput), toHostId: 'host-a', toSerials: [lab.source.tls.identity().serial] }
    expect(await listAt(lab.source, guest.uuid, elsewhere)).to.equal('connection_lost')
  })

  /** Tells an agent, as the gateway does, that this guest is about to arrive from `host-a`. */
  const expectAt = (agent: LabAgent, guest: Guest, moveId: string, generation: number) =>
    agent.domain.arrivals.reservations.expect({
      moveId,
      generation,
      fromHostId: 'host-a',
      guest,
      overcommit: undefined,
      liveFacts: '',
      sharedPools: [],
    })
  const appointAt = (agent: LabAgent, { uuid }: Guest, generation: number, isOwner: boolean) =>
    agent.domain.arrivals.decisions.appoint({ uuid, generation, isOwner })
  const findAt = (agent: LabAgent, { uuid }: Guest) => agent.guests().find((guest) => guest.uuid === uuid)

  it('keeps the data of the current move if a late request of an earlier move arrives', async () => {
    const guest = await lab.addGuest()
    await expectAt(lab.target, guest, 'newer', 1)
    lab.target.host.volumes.add(guest.uuid)
    expect(await codeOf(expectAt(lab.target, guest, 'older', 0))).to.equal('guest_moving')
    expect(findAt(lab.target, guest)?.ownership).to.deep.equal({ role: 'arriving', generation: 1, moveId: 'newer' })
    expect(lab.target.host.volumes.has(guest.uuid)).to.equal(true)
    await appointAt(lab.target, guest, 2, false)
    expect(lab.target.host.volumes.has(guest.uuid)).to.equal(false)
  })

  it('confirms a host as the owner of a guest only if the host has the guest', async () => {
    const guest = await lab.addGuest()
    expect(await codeOf(appointAt(lab.target, guest, 1, true))).to.equal('not_found')
    await expectAt(lab.target, guest, 'move', 1)
    expect(await codeOf(appointAt(lab.target, guest, 2, true))).to.equal('not_found')
    await appointAt(lab.target, guest, 3, false)
    await appointAt(lab.source, guest, 1, true)
    expect(findAt(lab.source, guest)?.ownership.role).to.equal('owner')
  })

  it('does not move a guest back before the task of the first move has ended', async () => {
    const guest = await lab.addGuest()
    let code = ''
    lab.source.observer = async ({ step, phase }) => {
      if (step === 'remove' && phase === 'before-run') code = await codeOf(expectAt(lab.source, guest, 'back', 1))
    }
    await lab.moveDone(guest)
    expect(code).to.equal('guest_moving')
    await lab.expectOnlyAt('host-b', guest)
  })

  it('does not delete a guest on its source if the guest is already moving back', async () => {
    const guest = await lab.addGuest()
    const { uuid } = guest
    lab.source.observer = ({ step, phase }) => {
      if (step !== 'remove' || phase !== 'before-run') return
      lab.source.journal((guests) => changeOwnership(guests, uuid, { kind: 'expect', moveId: 'back', generation: 1 }))
    }
    await lab.moveDone(guest)
    expect(findAt(lab.source, guest)).to.not.equal(undefined)
    expect(lab.source.host.volumes.has(uuid)).to.equal(true)
    await appointAt(lab.source, guest, 2, false)
  })

  it('stops an old copy of a guest on a restored host, and permits a move to this host after the copy is deleted', async () => {
    const guest = await lab.addGuest()
    const { id, uuid, name } = guest
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    lab.source.journal(({ changes }) => changes.db.prepare('DELETE FROM guest_owners WHERE guest_uuid = ?').run(uuid))
    lab.source.addGuest({ id, uuid, name })
    await waitFor(() => findAt(lab.source, guest)?.ownership.role === 'fenced', { what: 'the old copy is fenced' })
    await waitFor(() => !lab.source.host.driver.running.has(uuid), { what: 'the old copy is stopped' })
    expect(lab.fleet.view.findGuest(uuid)?.hostId).to.equal('host-b')
    const order = { $case: 'delete', value: { uuid } } as const
    const operationId = randomUUID()
    await lab.fleet.agent('host-a').operations.submitOperation({ operationId, requestedBy: 'admin', order })
    await waitFor(() => lab.statusOf(operationId) === 'done', { what: 'the deletion of the old copy' })
    await lab.expectOnlyAt('host-b', guest)
    await expectAt(lab.source, guest, 'back', 1)
    await appointAt(lab.source, guest, 2, false)
  })

  it('stops a guest that another host owns at the next check of the agent if the first attempt to kill it fails', async () => {
    const guest = await lab.addGuest()
    const { driver, faults } = lab.source.host
    faults.kill = () => {
      throw new Error('a fault of the test')
    }
    expect(await codeOf(appointAt(lab.source, guest, 1, false))).to.contain('a fault of the test')
    delete faults.kill
    expect(driver.running.has(guest.uuid)).to.equal(true)
    await lab.source.domain.reconciler.pass()
    await waitFor(() => !driver.running.has(guest.uuid), { what: 'the end of the guest' })
  })

  it('cancels a move if the target does not answer the request for a reservation', async () => {
    const guest = await lab.addGuest()
    const { reservations } = lab.target.domain.arrivals
    const reserve = reservations.expect.bind(reservations)
    reservations.expect = async (request) => {
      if (request.moveId !== '') throw new UnansweredError(true, new Error('a fault of the test'))
      return reserve(request)
    }
    try {
      await lab.fleet.relocation.moves.begin(lab.requestFor(guest)).catch(() => undefined)
      await lab.expectOnlyAt('host-a', guest)
    } finally {
      reservations.expect = reserve
    }
  })

  /** Connects to a move's target like the source. @returns the list of snapshots at the target, or an error code */
  async function listAt(agent: LabAgent, uuid: string, input: MoveInput): Promise<unknown> {
    const { toHostId, toSerials, ticket, ticketKey } = input
    const key = openTicketKey(lab.source.domain.context, uuid, ticketKey)
    const at = { hostId: toHostId, address: agent.address, serials: toSerials, ticket, key }
    const socket = await connectTarget(lab.source.stateDir, at, new AbortController().signal)
    const stream = new FrameStream(socket)
    try {
      await stream.send({ kind: 'list' })
      return await stream.nextMessage()
    } catch (error) {
      return error instanceof BerthError ? error.code : 'connection_lost'
    } finally {
      socket.destroy()
    }
  }
})
