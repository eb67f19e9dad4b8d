import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { BerthError } from '../../shared/errors.js'
import { PolicySettings } from '../../agent/guests/settings/policy.js'
import {
  carryOut,
  openMemoryGuest,
  submitOrder,
  type MemoryGuest,
  type WireOrder,
} from '../support/memory/memory-guest.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests on a simulated host which requests are rejected for a suspended guest, and which state the guest has during and
 * after the suspension.
 */

const snapshotId = '00000000-0000-4000-8000-00000000000a'
const backupId = '00000000-0000-4000-8000-00000000000b'
const target: BackupTarget = {
  id: backupId,
  name: 'vault',
  password: 'of-the-vault-1',
  verifyPercent: 0,
  place: { $case: 'local', value: { path: '/nowhere' } },
}

/** Requests that every suspension rejects. `liftBlock` marks requests of an administrator. */
const refused: readonly ((uuid: string) => WireOrder)[] = [
  (uuid) => ({ $case: 'start', value: { uuid, liftBlock: false } }),
  (uuid) => ({ $case: 'start', value: { uuid, liftBlock: true } }),
  (uuid) => ({ $case: 'restart', value: { uuid, force: true, liftBlock: true } }),
  (uuid) => ({
    $case: 'reinstall',
    value: {
      uuid,
      templateId: 'debian-12',
      force: true,
      liftBlock: true,
      sshAuthMode: 'keep',
      sshPassword: '',
      sshPublicKey: '',
    },
  }),
  (uuid) => ({ $case: 'resetPassword', value: { uuid, password: '' } }),
  (uuid) => ({ $case: 'snapshotRestore', value: { uuid, snapshotId } }),
  (uuid) => ({ $case: 'backupRestore', value: { uuid, target, backupId, sourceUuid: uuid } }),
  (uuid) => ({ $case: 'changeBoot', value: { uuid, mode: 'rescue', image: '', force: true } }),
]
const nameOf = (make: (uuid: string) => WireOrder): string => {
  const { $case, value } = make('')
  return 'liftBlock' in value && value.liftBlock ? `"${$case}" of an administrator` : `"${$case}"`
}

describe('a suspended guest', function () {
  let guest: MemoryGuest
  let settings: PolicySettings

  beforeEach(async () => {
    guest = await openMemoryGuest()
    const { domain, host, uuid } = guest
    settings = new PolicySettings(domain.context, domain.policy)
    host.contents.set(uuid, 'first')
    await carryOut(domain, { $case: 'snapshotCreate', value: { uuid, description: '' } }, snapshotId)
  })
  afterEach(() => guest.destroy())

  const record = () => guest.domain.context.store.get(guest.uuid)
  const runs = () => guest.host.driver.running.has(guest.uuid)
  const isCut = () => guest.host.wire.guests.get(guest.uuid)?.cut ?? false
  const target = () => ({ uuid: guest.uuid, ifRevision: 0 })
  const suspend = (mode: string, untilMs = 0) =>
    settings.suspend(target(), { reason: 'unpaid', message: 'Please pay', mode, untilMs })
  const unsuspend = () => settings.unsuspend(target())
  const idle = () => waitFor(() => !guest.domain.engine.busy({ kind: 'guest', id: guest.uuid }))

  async function settled(): Promise<void> {
    await guest.domain.policy.look()
    await idle()
    await guest.domain.reconciler.pass()
    await idle()
  }

  const runsAgain = () =>
    waitFor(async () => {
      await guest.domain.reconciler.pass()
      return runs() && record().status === 'running'
    })

  /** @returns the error code of the submission or of the ended operation; "" if the operation succeeded */
  async function codeOf(order: WireOrder): Promise<string> {
    const { domain } = guest
    try {
      const { id } = await submitOrder(domain, domain.engine, order)
      return (await domain.engine.wait(id)).errorCode
    } catch (error) {
      return error instanceof BerthError ? error.code : String(error)
    }
  }

  for (const mode of ['stop', 'network'] as const)
    for (const make of refused)
      it(`rejects the operation ${nameOf(make)} in the mode "${mode}"`, async () => {
        await suspend(mode)
        await settled()
        expect(await codeOf(make(guest.uuid))).to.equal('policy_blocked')
        expect([runs(), isCut()]).to.deep.equal([mode === 'network', true])
      })

  for (const make of refused)
    it(`rejects the operation ${nameOf(make)} even if it was queued before the suspension`, async () => {
      const { domain, host, uuid } = guest
      let release = (): void => undefined
      const held = new Promise<void>((resolve) => (release = resolve))
      host.faults.snapshot = () => held
      const before = { $case: 'snapshotCreate', value: { uuid, description: '' } } as const
      await submitOrder(domain, domain.engine, before, randomUUID())
      const { id } = await submitOrder(domain, domain.engine, make(uuid))
      await suspend('network')
      delete host.faults.snapshot
      release()
      expect((await domain.engine.wait(id)).errorCode).to.equal('policy_blocked')
      expect(record().login).to.be.a('string')
    })

  it('is stopped in the mode “stop”, and is started again when the suspension ends', async () => {
    await suspend('stop')
    await settled()
    expect([runs(), record().status, isCut()]).to.deep.equal([false, 'stopped', true])
    await unsuspend()
    await runsAgain()
    expect([record().suspension, isCut()]).to.deep.equal([null, false])
  })

  it('stays stopped after the suspension if it was stopped before or during the suspension', async () => {
    const stop = { $case: 'stop', value: { uuid: guest.uuid, force: true } } as const
    await carryOut(guest.domain, stop)
    await suspend('stop')
    await unsuspend()
    await settled()
    expect([runs(), record().wanted]).to.deep.equal([false, 'stopped'])
    await carryOut(guest.domain, { $case: 'start', value: { uuid: guest.uuid, liftBlock: false } })
    await suspend('stop')
    await settled()
    await carryOut(guest.domain, stop)
    await unsuspend()
    await settled()
    expect([runs(), record().wanted]).to.deep.equal([false, 'stopped'])
  })

  it('is started after a reboot of its host only if the mode is “network”, and stays disconnected', async () => {
    await suspend('network')
    guest.host.driver.running.clear()
    await runsAgain()
    expect(isCut()).to.equal(true)
    await suspend('stop')
    await settled()
    await guest.domain.reconciler.pass()
    expect(runs()).to.equal(false)
  })

  it('runs again without a network if the mode changes from “stop” to “network”', async () => {
    await suspend('stop')
    await settled()
    await suspend('network')
    await runsAgain()
    expect(isCut()).to.equal(true)
  })

  it('stays stopped if it has also expired and only one of suspension and expiry ends', async () => {
    await settings.setExpiry(target(), 1)
    await suspend('stop')
    await settled()
    await settings.setExpiry(target(), 0)
    expect(await codeOf({ $case: 'start', value: { uuid: guest.uuid, liftBlock: true } })).to.equal('policy_blocked')
    await settings.setExpiry(target(), 1)
    await unsuspend()
    await settled()
    expect([runs(), record().policy.expired]).to.deep.equal([false, true])
  })

  it('is started when the time of its suspension is over', async () => {
    await suspend('stop', Date.now() + 1500)
    await settled()
    expect(runs()).to.equal(false)
    await waitFor(async () => {
      await guest.domain.policy.look()
      return record().suspension === null
    })
    await runsAgain()
  })

  it('is stopped if it was suspended during its creation, and runs after the suspension', async () => {
    const { domain, uuid } = guest
    await carryOut(domain, { $case: 'delete', value: { uuid } })
    await guest.destroy()
    guest = await openMemoryGuest((starting) => {
      settings = new PolicySettings(starting.context, starting.policy)
      return settings.suspend(
        { uuid: starting.context.store.list()[0]!.uuid, ifRevision: 0 },
        { reason: 'unpaid', message: '', mode: 'stop', untilMs: 0 },
      )
    })
    settings = new PolicySettings(guest.domain.context, guest.domain.policy)
    await settled()
    expect([runs(), record().status]).to.deep.equal([false, 'stopped'])
    await unsuspend()
    await runsAgain()
  })

  it('is disconnected, and in the mode “stop” also stopped, after any sequence of requests', async () => {
    const powers = refused.map((make) => ({ kind: 'order' as const, make }))
    const changes = (['stop', 'network', 'lift'] as const).map((mode) => ({
      kind: 'suspension' as const,
      mode,
    }))
    const request = fc.oneof(fc.constantFrom(...powers), fc.constantFrom(...changes))
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 6 }), async (requests) => {
        const { domain, uuid } = guest
        await unsuspend()
        await settled()
        for (const one of requests) {
          if (one.kind === 'suspension') await (one.mode === 'lift' ? unsuspend() : suspend(one.mode))
          else await submitOrder(domain, domain.engine, one.make(uuid)).catch(() => undefined)
        }
        await idle()
        // Waits for two checks of the guest, because only the second one surely begins after the last request.
        await settled()
        await settled()
        const { suspension } = record()
        expect(isCut(), 'cut off').to.equal(suspension !== null)
        if (suspension?.mode === 'stop') expect(runs(), 'runs').to.equal(false)
      }),
      { numRuns: 40 },
    )
  })
})
