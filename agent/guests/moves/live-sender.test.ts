import { expect } from 'chai'
import { pino } from 'pino'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { conflict } from '../../../shared/errors.js'
import type { LiveMoves } from '../../drivers/contract.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { GuestStore } from '../record/guest-store.js'
import type { Machine } from '../../drivers/machine.js'
import { changeOwnership, readOwnership } from './change-ownership.js'
import type { CopyParts, Move } from './copy-disk.js'
import { leave, stay } from './leave.js'
import { LivePauses } from './live-pauses.js'
import { LiveSender } from './live-sender.js'

const { uuid } = stoppedGuest
const step = {
  operationId: 'm1',
  subject: { kind: 'guest', id: uuid },
  input: { generation: 0 },
  log: pino({ level: 'silent' }),
} as Partial<Move> as Move

describe('the end of a live move on its source', () => {
  let store: GuestStore
  let calls: string[]
  let live: LiveMoves
  let pauses: LivePauses
  let sender: LiveSender
  /** True if the driver's process says that the guest is still paused. */
  let isPaused: boolean

  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    store.insert({ ...stoppedGuest, status: 'running', wanted: 'running' })
    calls = []
    live = {
      checkPaused: async () => (isPaused ? undefined : Promise.reject(conflict('memory_not_sent', 'it runs'))),
      release: async () => void calls.push('release'),
    } as Partial<LiveMoves> as LiveMoves
    const driver = { live, kill: async () => void calls.push('kill') }
    const machines = { driverOf: () => driver, of: () => ({}) }
    const context = { store, machines, now: () => 1000 } as unknown as CopyParts['context']
    pauses = new LivePauses(store, context.now)
    sender = new LiveSender({ context, readTraffic: async () => null }, pauses)
    isPaused = true
  })
  afterEach(async () => {
    await pauses.close()
    store.changes.db.close()
  })

  const roleOf = (): string => readOwnership(store, uuid).role

  function pause(): void {
    pauses.begin(step, { atMs: 1000, live, machine: {} as Machine, memory: { close: () => undefined } })
    leave(store, step, { pausedAtMs: 1000 })
  }

  it('hands over a guest that is still paused, and keeps it paused', async () => {
    pause()
    await sender.handOver(step)
    await sender.close()
    expect([roleOf(), calls]).to.deep.equal(['handed_over', []])
  })

  it('does not hand over a guest that is no longer paused', async () => {
    pause()
    isPaused = false
    expect(await sender.handOver(step).catch((error: unknown) => error)).to.include({ code: 'memory_not_sent' })
    expect(roleOf()).to.equal('leaving')
  })

  it('does not hand over a guest whose pause ends during the last check', async () => {
    pause()
    const handedOver = sender.handOver(step).catch((error: unknown) => error)
    await sender.close()
    expect(await handedOver).to.include({ code: 'connection_lost' })
    expect([roleOf(), calls]).to.deep.equal(['leaving', ['release']])
  })

  it('does not hand over a guest that an earlier agent process has paused', async () => {
    leave(store, step, { pausedAtMs: 1000 })
    expect(await sender.handOver(step).catch((error: unknown) => error)).to.include({ code: 'connection_lost' })
    expect(roleOf()).to.equal('leaving')
  })

  it('does nothing for a guest that was handed over already', async () => {
    leave(store, step, { pausedAtMs: 1000 })
    changeOwnership(store, uuid, { kind: 'hand_over' })
    await sender.handOver(step)
    expect(roleOf()).to.equal('handed_over')
  })

  it('lets the guest run again after a failure', async () => {
    leave(store, step, { pausedAtMs: 1000 })
    stay(store, uuid)
    await sender.releaseOrEnd(step)
    expect([calls, store.get(uuid).status]).to.deep.equal([['release'], 'running'])
  })

  it('kills a guest that has expired while it was paused', async () => {
    leave(store, step, { pausedAtMs: 1000 })
    stay(store, uuid)
    store.update(uuid, { policy: { expired: true, overQuota: false, expiredForMs: 1 } })
    await sender.releaseOrEnd(step)
    expect([calls, store.get(uuid).status]).to.deep.equal([['kill'], 'stopped'])
  })
})
