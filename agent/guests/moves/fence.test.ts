import { expect } from 'chai'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { GuestStore } from '../record/guest-store.js'
import type { GuestUpdate } from '../record/rows.js'
import { changeOwnership } from './change-ownership.js'
import { liftFence, recordFence } from './fence.js'
import { leave, stay } from './leave.js'

const { uuid } = stoppedGuest
const running: GuestUpdate = { status: 'running', wanted: 'running' }
const step = { subject: { kind: 'guest', id: uuid }, operationId: 'm1', input: { generation: 0 } }

const network = { listShared: (addresses: readonly string[]): string[] => [...addresses] }

describe('a fenced guest whose host becomes its owner again', () => {
  let store: GuestStore
  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    store.insert(stoppedGuest)
  })
  afterEach(() => store.changes.db.close())

  const fence = (generation: number, before: 'owner' | 'leaving' | 'fenced'): void => {
    changeOwnership(store, uuid, { kind: 'appoint', generation, isOwner: false })
    recordFence({ store, network }, uuid, before)
    expect(store.get(uuid)).to.include({ status: 'error', wanted: 'stopped' })
  }
  const reinstate = (generation: number): void => {
    changeOwnership(store, uuid, { kind: 'appoint', generation, isOwner: true })
    liftFence(store, uuid)
  }

  it('is started if it ran before, even if the host was notified several times of other owners', () => {
    store.update(uuid, running)
    fence(1, 'owner')
    fence(3, 'fenced')
    reinstate(4)
    expect(store.get(uuid)).to.include({ status: 'stopped', statusReason: '', wanted: 'running' })
  })

  it('is started if a move had stopped it, and keeps running when a later move fails', () => {
    store.update(uuid, running)
    leave(store, step)
    fence(1, 'leaving')
    reinstate(2)
    expect(store.get(uuid)).to.include({ status: 'stopped', wanted: 'running' })
    expect(stay(store, uuid)).to.equal(false)
  })

  it('stays stopped if it was stopped', () => {
    fence(1, 'owner')
    reinstate(2)
    expect(store.get(uuid)).to.include({ status: 'stopped', statusReason: '', wanted: 'stopped' })
  })

  it('stays broken if it was broken', () => {
    store.update(uuid, { status: 'error', statusReason: 'its disk is damaged' })
    fence(1, 'owner')
    reinstate(2)
    expect(store.get(uuid)).to.include({ status: 'error', statusReason: 'its disk is damaged' })
  })
})
