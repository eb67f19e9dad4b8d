import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changeOwnership } from '../../agent/guests/moves/change-ownership.js'
import { connectTarget } from '../../agent/guests/moves/connect-target.js'
import { copyStopped } from '../../agent/guests/moves/copy-disk.js'
import { FrameStream } from '../../agent/guests/moves/frame-stream.js'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import { openTicketKey } from '../../agent/guests/moves/ticket-key.js'
import type { MoveInput } from '../../agent/guests/moves/move-input.js'
import type { StepEvent } from '../../agent/operations/types.js'
import type { GuestMoveRequest } from '../../gateway/fleet/contract.js'
import { MoveStore } from '../../gateway/fleet/moves/move-store.js'
import type { Store } from '../../gateway/store/store.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../shared/errors.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { LabFleet } from '../support/memory/lab-fleet.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const steps = ['copy', 'leave', 'stop', 'last', 'hand_over', 'remove'] as const
const phases = ['before-run', 'after-run'] as const
const ticketMs = 24 * 3_600_000

describe('a fleet that moves guests between hosts', function () {
  let redis: TestRedis
  let store: Store
  let fleet: LabFleet
  let directory: string
  before(async () => {
    redis = await startTestRedis()
    store = await redis.openStore('btest:')
    directory = await mkdtemp(join(tmpdir(), 'btest-fleet-moves-'))
    const hosts = ['host-a', 'host-b']
    fleet = await LabFleet.start({ store, stateDir: directory, log: silentLog, hosts })
    for (const id of ['host-a', 'host-b']) await fleet.work(id)
  })
  after(async () => {
    await fleet?.close()
    await redis?.stop()
    await rm(directory, { recursive: true, force: true })
  })
  afterEach(() => {
    for (const agent of fleet.agents.values()) {
      agent.observer = undefined
      agent.now = Date.now
    }
  })

  const source = (): LabAgent => fleet.agents.get('host-a')!
  const target = (): LabAgent => fleet.agents.get('host-b')!
  const requestFor = (guest: Guest): GuestMoveRequest => ({
    operationId: randomUUID(),
    guest: fleet.view.findGuest(guest.uuid)!,
    toHostId: 'host-b',
    bandwidthMbps: 0,
    requestedBy: 'admin',
  })
  const statusOf = (id: string): string => fleet.view.findOperation(id)?.operation.status ?? ''

  async function addGuest(): Promise<Guest> {
    const guest = await fleet.addGuest()
    source().host.contents.set(guest.uuid, `disk of ${guest.name}`)
    return guest
  }

  async function move(guest: Guest): Promise<string> {
    const request = requestFor(guest)
    await fleet.moveGuest(request)
    await waitFor(() => ['done', 'failed', 'canceled'].includes(statusOf(request.operationId)), {
      what: () => `the end of ${JSON.stringify(fleet.view.findOperation(request.operationId))}`,
    })
    return statusOf(request.operationId)
  }

  /** Expects that only this host has a copy of the guest, which runs, and that the store has no move. */
  async function expectOnlyAt(hostId: string, { uuid, name }: Guest): Promise<void> {
    const key = store.key('guest-moves')
    await waitFor(async () => (await store.client.hLen(key)) === 0, { what: 'no move in the store' })
    await waitFor(() => fleet.view.findGuest(uuid)?.hostId === hostId, { what: `${name} shown on ${hostId}` })
    await waitFor(() => fleet.agents.get(hostId)!.host.driver.running.has(uuid), {
      what: `${name} running on ${hostId}`,
    })
    for (const [id, agent] of fleet.agents) {
      const { host } = agent
      expect(host.driver.running.has(uuid), `running on ${id}`).to.equal(id === hostId)
      await waitFor(() => host.volumes.has(uuid) === (id === hostId), { what: `the volume on ${id}` })
      expect(host.contents.get(uuid), `disk on ${id}`).to.equal(id === hostId ? `disk of ${name}` : undefined)
      expect([...(host.snapshots.get(uuid)?.keys() ?? [])], `snapshots on ${id}`).to.deep.equal([])
      expect(
        agent.guests().some((guest) => guest.uuid === uuid),
        `recorded on ${id}`,
      ).to.equal(id === hostId)
    }
  }

  it('moves a running guest, and shows it as moved and not as removed', async () => {
    const guest = await addGuest()
    const events: string[] = []
    const stop = fleet.view.changes.listen((change) => {
      if (change.kind === 'guest' && !change.after) events.push('removed')
      if (change.kind === 'guest' && change.before && change.after && change.before.hostId !== change.after.hostId)
        events.push('moved')
    })
    expect(await move(guest)).to.equal('done')
    stop()
    await expectOnlyAt('host-b', guest)
    expect(events).to.deep.equal(['moved'])
  })

  it('plans a move without reserving anything on the target host', async () => {
    const guest = await addGuest()
    const plan = await fleet.planMove({ guest: fleet.view.findGuest(guest.uuid)!, toHostId: 'host-b' })
    expect(plan.toHostId).to.equal('host-b')
    expect(plan.network.portMappings.map(({ hostPort }) => hostPort)).to.deep.equal(
      guest.portMappings.map(({ hostPort }) => hostPort),
    )
    expect(
      target()
        .guests()
        .some(({ uuid }) => uuid === guest.uuid),
    ).to.equal(false)
  })

  it('refuses to move a guest to the host on which it already is', async () => {
    const guest = await addGuest()
    const asked = { ...requestFor(guest), toHostId: 'host-a' }
    const refused = await fleet.moveGuest(asked).catch((error: unknown) => error)
    expect(refused).to.include({ code: 'invalid_state' })
  })

  it('refuses a guest on a target whose memory is allocated to other guests', async () => {
    const guest = await addGuest()
    const request = { generation: 0, fromHostId: 'host-a', guest, overcommit: { cpu: 0, ram: 0.0001, disk: 0 } }
    for (const moveId of ['', 'm'])
      expect(await codeOf(target().domain.arrivals.expect({ ...request, moveId }))).to.equal('resource_exhausted')
    expect(findAt(target(), guest)).to.equal(undefined)
  })

  it('deletes the copy and the reservations on the target host after a move that the store has lost', async () => {
    const guest = await addGuest()
    const { uuid } = guest
    await expectAt(target(), guest, 'lost', 0)
    target().host.volumes.add(uuid)
    source().host.driver.running.delete(uuid)
    source().journal((journal) => {
      changeOwnership(journal, uuid, { kind: 'leave', moveId: 'lost', generation: 0 })
      changeOwnership(journal, uuid, { kind: 'hand_over' })
    })
    await new MoveStore(store).recover({ uuid, hostId: 'host-a', moveId: 'lost', generation: 0 })
    await expectOnlyAt('host-a', guest)
  })

  it('refuses the ticket of a move that has ended, and a ticket for another host', async () => {
    const guest = await addGuest()
    const request = requestFor(guest)
    await fleet.moveGuest(request)
    await waitFor(() => statusOf(request.operationId) === 'done')
    await expectOnlyAt('host-b', guest)
    const { input } = source().domain.engine.store.findJournaled(request.operationId)!
    expect(await listAt(target(), guest.uuid, input as MoveInput)).to.equal('connection_lost')
    const elsewhere = { ...(input as MoveInput), toHostId: 'host-a', toSerials: [source().tls.identity().serial] }
    expect(await listAt(source(), guest.uuid, elsewhere)).to.equal('connection_lost')
  })

  /** Tells an agent, as the gateway does, that this guest is about to arrive from `host-a`. */
  const expectAt = (agent: LabAgent, guest: Guest, moveId: string, generation: number) =>
    agent.domain.arrivals.expect({ moveId, generation, fromHostId: 'host-a', guest, overcommit: undefined })
  const appointAt = (agent: LabAgent, { uuid }: Guest, generation: number, isOwner: boolean) =>
    agent.domain.arrivals.appoint({ uuid, generation, isOwner })
  const findAt = (agent: LabAgent, { uuid }: Guest) => agent.guests().find((guest) => guest.uuid === uuid)

  it('keeps the data of the present move on the target host when a late request of an earlier move arrives', async () => {
    const guest = await addGuest()
    await expectAt(target(), guest, 'newer', 1)
    target().host.volumes.add(guest.uuid)
    expect(await codeOf(expectAt(target(), guest, 'older', 0))).to.equal('guest_moving')
    expect(findAt(target(), guest)?.ownership).to.deep.equal({ role: 'arriving', generation: 1, moveId: 'newer' })
    expect(target().host.volumes.has(guest.uuid)).to.equal(true)
    await appointAt(target(), guest, 2, false)
    expect(target().host.volumes.has(guest.uuid)).to.equal(false)
  })

  it('confirms a host as the owner of a guest only if the host has the guest', async () => {
    const guest = await addGuest()
    expect(await codeOf(appointAt(target(), guest, 1, true))).to.equal('not_found')
    await expectAt(target(), guest, 'move', 1)
    expect(await codeOf(appointAt(target(), guest, 2, true))).to.equal('not_found')
    await appointAt(target(), guest, 3, false)
    await appointAt(source(), guest, 1, true)
    expect(findAt(source(), guest)?.ownership.role).to.equal('owner')
  })

  it('does not move a guest back before the task of the first move has ended', async () => {
    const guest = await addGuest()
    let code = ''
    source().observer = async ({ step, phase }) => {
      if (step === 'remove' && phase === 'before-run') code = await codeOf(expectAt(source(), guest, 'back', 1))
    }
    expect(await move(guest)).to.equal('done')
    expect(code).to.equal('guest_moving')
    await expectOnlyAt('host-b', guest)
  })

  it('does not delete a guest on its source host if the guest is already moving back to this host', async () => {
    const guest = await addGuest()
    const { uuid } = guest
    source().observer = ({ step, phase }) => {
      if (step !== 'remove' || phase !== 'before-run') return
      source().journal((guests) => changeOwnership(guests, uuid, { kind: 'expect', moveId: 'back', generation: 1 }))
    }
    expect(await move(guest)).to.equal('done')
    expect(findAt(source(), guest)).to.not.equal(undefined)
    expect(source().host.volumes.has(uuid)).to.equal(true)
    await appointAt(source(), guest, 2, false)
  })

  it('stops an old copy of a guest on a host restored from a backup; the guest can move there once the copy is deleted', async () => {
    const guest = await addGuest()
    const { id, uuid, name } = guest
    expect(await move(guest)).to.equal('done')
    await expectOnlyAt('host-b', guest)
    source().journal(({ changes }) => changes.db.prepare('DELETE FROM guest_owners WHERE guest_uuid = ?').run(uuid))
    source().addGuest({ id, uuid, name })
    await waitFor(() => findAt(source(), guest)?.ownership.role === 'fenced', { what: 'the old copy is fenced' })
    await waitFor(() => !source().host.driver.running.has(uuid), { what: 'the old copy is stopped' })
    expect(fleet.view.findGuest(uuid)?.hostId).to.equal('host-b')
    const order = { $case: 'delete', value: { uuid } } as const
    const operationId = randomUUID()
    await fleet.agent('host-a').operations.submitOperation({ operationId, requestedBy: 'admin', order })
    await waitFor(() => statusOf(operationId) === 'done', { what: 'the deletion of the old copy' })
    await expectOnlyAt('host-b', guest)
    await expectAt(source(), guest, 'back', 1)
    await appointAt(source(), guest, 2, false)
  })

  it('cancels a move whose target does not answer the reservation', async () => {
    const guest = await addGuest()
    const { arrivals } = target().domain
    const reserve = arrivals.expect.bind(arrivals)
    arrivals.expect = async (request) => {
      if (request.moveId !== '') throw new UnansweredError(true, new Error('a fault of the test'))
      return reserve(request)
    }
    try {
      await fleet.moveGuest(requestFor(guest)).catch(() => undefined)
      await expectOnlyAt('host-a', guest)
    } finally {
      arrivals.expect = reserve
    }
  })

  /** Connects to a move's target like the source. @returns the list of snapshots at the target, or an error code */
  async function listAt(agent: LabAgent, uuid: string, input: MoveInput): Promise<unknown> {
    const { toHostId, toSerials, ticket, ticketKey } = input
    const key = openTicketKey(source().domain.context, uuid, ticketKey)
    const at = { hostId: toHostId, address: agent.address, serials: toSerials, ticket, key }
    const socket = await connectTarget(source().stateDir, at, new AbortController().signal)
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

  for (const [name, code, spoil] of [
    [
      'the ticket expires before the target would have the last changes',
      'ticket_expired',
      () => (source().now = () => Date.now() + ticketMs - 1000),
    ],
    [
      'the limits of the guest were raised above the free resources of the target during the move',
      'resource_exhausted',
      ({ uuid }: Guest) => {
        const { limits } = source().journal((store) => store.get(uuid)).spec
        source().update(uuid, { limits: { ...limits, vcpuMilli: 256_000 } })
      },
    ],
    [
      'the guest got another address during the move',
      'guest_changed',
      ({ uuid }: Guest) => source().journal((store) => store.setAddresses(uuid, 4, ['198.51.100.77'])),
    ],
  ] as const)
    it(`does not stop the guest if ${name}`, async () => {
      const guest = await addGuest()
      const begun = new Set<string>()
      source().observer = ({ step, phase }) => {
        if (step === 'copy' && phase === 'before-run') spoil(guest)
        if (phase === 'before-run') begun.add(step)
      }
      const request = requestFor(guest)
      await fleet.moveGuest(request)
      await waitFor(() => statusOf(request.operationId) === 'failed', {
        what: () => `the failure of ${JSON.stringify(fleet.view.findOperation(request.operationId))}`,
      })
      expect(fleet.view.findOperation(request.operationId)?.operation.errorCode).to.equal(code)
      expect([...begun]).to.deep.equal(['copy'])
      await expectOnlyAt('host-a', guest)
    })

  it('aborts the last step of a move if the target does not finish in time', async () => {
    const guest = await addGuest()
    const request = requestFor(guest)
    const { faults } = target().host
    let error: unknown
    source().observer = async ({ step, phase }) => {
      if (step !== 'last' || phase !== 'before-run' || error !== undefined) return
      const released = new AbortController()
      faults.prepare = async () => void (await once(released.signal, 'abort'))
      error = await copyLast(request.operationId, guest, 100).catch((cause: unknown) => cause)
      delete faults.prepare
      released.abort()
    }
    await fleet.moveGuest(request)
    await waitFor(() => statusOf(request.operationId) === 'done')
    expect(error).to.include({ code: 'move_too_slow' })
    await expectOnlyAt('host-b', guest)
  })

  /** Runs the last transfer of a move (step `last`) outside of the move's operation, with another time limit. */
  async function copyLast(operationId: string, { uuid }: Guest, withinMs: number): Promise<void> {
    const { context, engine } = source().domain
    const step = {
      operationId,
      subject: guestSubject(uuid),
      input: engine.store.findJournaled(operationId)!.input as MoveInput,
      repeated: false,
      signal: new AbortController().signal,
      log: silentLog,
      report: () => undefined,
      yieldWhile: <T>(work: Promise<T>) => work,
    }
    await copyStopped({ context, readTraffic: async () => null }, step, withinMs)
  }

  for (const step of steps)
    for (const phase of phases) {
      // A failure does not undo these steps: after `hand_over` the gateway decides, and `remove` is repeated.
      const isUndone = !['hand_over', 'remove'].includes(step)
      if (isUndone)
        it(`leaves the guest on its host if a move fails immediately ${phase === 'before-run' ? 'before' : 'after'} the step "${step}"`, async () => {
          const guest = await addGuest()
          source().observer = failOnce(step, phase)
          expect(await move(guest)).to.equal('failed')
          await expectOnlyAt('host-a', guest)
        })

      it(`leaves exactly one copy of a guest if the target host of its move restarts immediately ${phase === 'before-run' ? 'before' : 'after'} the step "${step}"`, async () => {
        const guest = await addGuest()
        let isDone = false
        source().observer = async (event) => {
          if (isDone || event.step !== step || event.phase !== phase) return
          isDone = true
          await target().restart()
          await waitFor(() => fleet.findHost('host-b')?.state === 'online')
        }
        const status = await move(guest)
        await expectOnlyAt(status === 'done' ? 'host-b' : 'host-a', guest)
      })
    }
})

function failOnce(step: string, phase: string): (event: StepEvent) => void {
  let isDone = false
  return (event) => {
    if (isDone || event.step !== step || event.phase !== phase) return
    isDone = true
    throw new Error('a fault of the test')
  }
}
