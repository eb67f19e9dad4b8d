import { expect } from 'chai'
import { randomUUID, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Driver } from '../../agent/drivers/contract.js'
import { createCsrPem, createPrivateKeyPem } from '../../agent/enrollment/csr.js'
import { getIdentity } from '../../agent/enrollment/identity.js'
import { connectTarget } from '../../agent/guests/moves/connect-target.js'
import { copyStopped } from '../../agent/guests/moves/copy-disk.js'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import type { MoveInput } from '../../agent/guests/moves/move-input.js'
import type { StepEvent } from '../../agent/operations/types.js'
import { ensureAuthority } from '../../gateway/pki/authority.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../shared/errors.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { silentLog } from '../support/gateway/redis.js'
import { MoveLab } from '../support/memory/move-lab.js'
import { waitFor } from '../support/wait.js'

const steps = ['shutdown', 'copy', 'leave', 'stop', 'last_changes', 'hand_over', 'remove'] as const
const phases = ['before-run', 'after-run'] as const
const hourMs = 3_600_000
const ticketMs = 24 * hourMs
const gib = 1024 ** 3

describe('a failing or interrupted move of a guest', function () {
  let lab: MoveLab
  before(async () => {
    lab = await MoveLab.start()
  })
  after(() => lab?.close())
  afterEach(() => {
    lab?.reset()
    Reflect.deleteProperty(lab.target.host.driver, 'checkReceived')
  })

  for (const [name, code, spoil] of [
    [
      'the ticket would expire before the target has the last changes',
      'ticket_expired',
      () => (lab.source.now = () => Date.now() + ticketMs - 1000),
    ],
    [
      'the limits of the guest were raised above the free resources of the target during the move',
      'resource_exhausted',
      ({ uuid }: Guest) => {
        const { limits } = lab.source.journal((store) => store.get(uuid)).spec
        lab.source.update(uuid, { limits: { ...limits, vcpuMilli: 256_000 } })
      },
    ],
    [
      'the target cannot run the received system',
      'unsupported',
      () => {
        const checkReceived: Driver['checkReceived'] = (_volume, diskBytes) => {
          expect(diskBytes).to.equal(10 * gib)
          return Promise.reject(new BerthError('invalid', 'unsupported', 'a fault of the test'))
        }
        Object.assign(lab.target.host.driver, { checkReceived })
      },
    ],
    [
      'the guest got another address during the move',
      'guest_changed',
      ({ uuid }: Guest) => lab.source.journal((store) => store.setAddresses(uuid, 4, ['198.51.100.77'])),
    ],
  ] as const)
    it(`does not stop the guest if ${name}`, async () => {
      const guest = await lab.addGuest()
      const begun = new Set<string>()
      lab.source.observer = ({ step, phase }) => {
        if (step === 'copy' && phase === 'before-run') spoil(guest)
        if (phase === 'before-run') begun.add(step)
      }
      const request = lab.requestFor(guest)
      await lab.fleet.relocation.moves.begin(request)
      await waitFor(() => lab.statusOf(request.operationId) === 'failed', {
        what: () => `the failure of ${JSON.stringify(lab.fleet.view.findOperation(request.operationId))}`,
      })
      expect(lab.fleet.view.findOperation(request.operationId)?.operation.errorCode).to.equal(code)
      expect([...begun]).to.deep.equal(['shutdown', 'copy'])
      await lab.expectOnlyAt('host-a', guest)
    })

  it('can be canceled while the target does not answer, and the source’s agent does not crash', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { certificatePem: ticket, privateKeyPem: key } = getIdentity(join(lab.source.stateDir, 'identity'))
    const canceled = new AbortController()
    const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`
    const target = { hostId: 'host-b', address, serials: [], ticket, key }
    const connecting = connectTarget(lab.source.stateDir, target, canceled.signal)
    await once(silent, 'connection')
    canceled.abort()
    expect(await codeOf(connecting)).to.equal('target_unreachable')
    silent.close()
  })

  for (const [name, ageMs, result] of [
    ['accepts a certificate that the target has got since the ticket was issued', hourMs, 'ok'],
    [
      'refuses a certificate of the target that was not valid when the ticket was issued',
      -hourMs,
      'target_unreachable',
    ],
  ] as const)
    it(name, async () => {
      const authority = await ensureAuthority(join(lab.stateDir, 'pki'), 30)
      const key = createPrivateKeyPem()
      const transfer = { moveId: randomUUID(), guestUuid: randomUUID(), fromHostId: 'host-a', toHostId: 'host-b' }
      const { validFrom } = new X509Certificate(lab.target.tls.identity().certificatePem)
      const issuedAtMs = Date.parse(validFrom) + hourMs - ageMs // certificates are valid from an hour before
      const identity = { role: 'transfer', transfer } as const
      const ticket = await authority.signRequest(await createCsrPem(key), identity, ticketMs, issuedAtMs)
      const target = { hostId: 'host-b', address: lab.target.address, serials: [], ticket: ticket.certificatePem, key }
      const connecting = connectTarget(lab.source.stateDir, target, new AbortController().signal)
      expect(await codeOf(connecting.then((socket) => void socket.destroy()))).to.equal(result)
    })

  it('aborts its last step if the target does not complete this step in time', async () => {
    const guest = await lab.addGuest()
    const request = lab.requestFor(guest)
    const { faults } = lab.target.host
    let error: unknown
    lab.source.observer = async ({ step, phase }) => {
      if (step !== 'last_changes' || phase !== 'before-run' || error !== undefined) return
      const released = new AbortController()
      faults.prepare = async () => void (await once(released.signal, 'abort'))
      error = await copyLast(request.operationId, guest, 100).catch((cause: unknown) => cause)
      delete faults.prepare
      released.abort()
    }
    await lab.fleet.relocation.moves.begin(request)
    await waitFor(() => lab.statusOf(request.operationId) === 'done')
    expect(error).to.include({ code: 'move_too_slow' })
    await lab.expectOnlyAt('host-b', guest)
  })

  /** Runs the last transfer of a move (step `last_changes`) outside of the move's operation, with another time limit. */
  async function copyLast(operationId: string, { uuid }: Guest, withinMs: number): Promise<void> {
    const { context, engine } = lab.source.domain
    const step = {
      operationId,
      subject: guestSubject(uuid),
      input: engine.store.findJournaled(operationId)!.input as MoveInput,
      repeated: false,
      signal: new AbortController().signal,
      log: silentLog,
      report: () => undefined,
      noteDowntime: () => undefined,
      yieldWhile: <T>(work: Promise<T>) => work,
    }
    await copyStopped({ context, readTraffic: async () => null }, step, withinMs)
  }

  it('first kills a process that an earlier attempt left on the target, and then creates the disk there', async () => {
    const guest = await lab.addGuest()
    const { running } = lab.target.host.driver
    let isRunning = true
    lab.source.observer = ({ step, phase }) => {
      if (step === 'last_changes' && phase === 'before-run') lab.target.host.driver.run(guest.uuid)
      if (step === 'last_changes' && phase === 'after-run') isRunning = running.has(guest.uuid)
    }
    await lab.moveDone(guest)
    expect(isRunning).to.equal(false)
    await lab.expectOnlyAt('host-b', guest)
    // Older agents do not know the step `last_changes`. If they knew its name, they would continue a live move there.
    expect(lab.source.domain.kinds.migrate.steps.map(({ name }) => name)).to.deep.equal(steps)
  })

  it('tries again to kill a process of the guest on the source if the first attempt fails', async () => {
    const guest = await lab.addGuest()
    const { faults } = lab.source.host
    lab.source.observer = ({ step, phase }) => {
      if (step !== 'remove' || phase !== 'before-run') return
      lab.source.host.driver.run(guest.uuid)
      faults.kill = () => {
        delete faults.kill
        throw new Error('a fault of the test')
      }
    }
    await lab.moveDone(guest)
    expect(faults.kill).to.equal(undefined)
    await lab.expectOnlyAt('host-b', guest)
  })

  for (const step of steps)
    for (const phase of phases) {
      // Failures do not undo these steps. The gateway decides which host keeps the guest, and `remove` is repeated.
      const isUndone = !['hand_over', 'remove'].includes(step)
      if (isUndone)
        it(`leaves the guest on its host if the move fails just ${phase === 'before-run' ? 'before' : 'after'} the step "${step}"`, async () => {
          const guest = await lab.addGuest()
          lab.source.observer = failOnce(step, phase)
          expect(await lab.move(guest)).to.equal('failed')
          await lab.expectOnlyAt('host-a', guest)
        })

      it(`leaves exactly one copy of the guest if the target restarts just ${phase === 'before-run' ? 'before' : 'after'} the step "${step}"`, async () => {
        const guest = await lab.addGuest()
        let isDone = false
        lab.source.observer = async (event) => {
          if (isDone || event.step !== step || event.phase !== phase) return
          isDone = true
          await lab.target.restart()
          await waitFor(() => lab.fleet.findHost('host-b')?.state === 'online')
        }
        const status = await lab.move(guest)
        await lab.expectOnlyAt(status === 'done' ? 'host-b' : 'host-a', guest)
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
