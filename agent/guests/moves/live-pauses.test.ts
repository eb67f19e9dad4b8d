import { expect } from 'chai'
import { pino } from 'pino'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { waitFor } from '../../../test/support/wait.js'
import type { LiveMoves } from '../../drivers/contract.js'
import type { Machine } from '../../drivers/machine.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { GuestStore } from '../record/guest-store.js'
import { changeOwnership } from './change-ownership.js'
import type { Move } from './copy-disk.js'
import { leave } from './leave.js'
import { LivePauses } from './live-pauses.js'

const { uuid } = stoppedGuest
const step = {
  operationId: 'm1',
  subject: { kind: 'guest', id: uuid },
  input: { generation: 0, maxDowntimeMs: 10 },
  log: pino({ level: 'silent' }),
} as Partial<Move> as Move

describe('the pauses of guests for their moves', () => {
  let store: GuestStore
  let released: number
  let closed: number

  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    store.insert(stoppedGuest)
    released = closed = 0
  })
  afterEach(() => store.changes.db.close())

  /** @param limitMs time limit of the pause, to which `maxDowntimeMs` of the move (10 ms) is added */
  function begin(limitMs: number): LivePauses {
    const pauses = new LivePauses(store, () => 1000, limitMs)
    const live = { release: async () => void released++ } as Partial<LiveMoves> as LiveMoves
    pauses.begin(step, { atMs: 1000, live, machine: {} as Machine, memory: { close: () => void closed++ } })
    return pauses
  }
  const isKnown = (pauses: LivePauses): boolean => {
    try {
      return pauses.get(step).atMs === 1000
    } catch (error) {
      expect(error).to.include({ code: 'connection_lost' })
      return false
    }
  }

  it('end at the time limit, even while the operation of the move waits', async () => {
    const pauses = begin(0)
    const { deadline } = pauses.get(step)
    leave(store, step, { pausedAtMs: 1000 })
    await waitFor(() => released === 1)
    expect([isKnown(pauses), deadline.aborted, closed]).to.deep.equal([false, true, 1])
  })

  it('end when the agent stops', async () => {
    const pauses = begin(3_600_000)
    leave(store, step, { pausedAtMs: 1000 })
    await pauses.close()
    expect([isKnown(pauses), released, closed]).to.deep.equal([false, 1, 1])
  })

  it('do not let a guest run on its source host after the guest was handed over', async () => {
    const pauses = begin(3_600_000)
    leave(store, step, { pausedAtMs: 1000 })
    changeOwnership(store, uuid, { kind: 'hand_over' })
    await pauses.close()
    expect(released).to.equal(0)
  })

  it('leave the guest paused if the operation of the move ends, and close the connection that sends its memory', async () => {
    const pauses = begin(3_600_000)
    pauses.end(step)
    await pauses.close()
    expect([isKnown(pauses), released, closed]).to.deep.equal([false, 0, 1])
  })
})
