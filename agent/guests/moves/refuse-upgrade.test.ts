import { expect } from 'chai'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { GuestStore } from '../record/guest-store.js'
import { noteArrival } from './arrival-details.js'
import { changeOwnership } from './change-ownership.js'
import { leave, stay } from './leave.js'
import { refuseUpgrade } from './refuse-upgrade.js'

const { uuid } = stoppedGuest
const step = { subject: { kind: 'guest', id: uuid }, operationId: 'm1', input: { generation: 0 } }

describe('an upgrade of the agent during moves', () => {
  let store: GuestStore
  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    store.insert(stoppedGuest)
  })
  afterEach(() => store.changes.db.close())

  const expectRefusal = (): unknown =>
    expect(() => refuseUpgrade(store))
      .to.throw()
      .with.property('code', 'guest_moving')

  it('is possible while a guest is stopped for its move', () => {
    leave(store, step)
    refuseUpgrade(store)
  })

  it('is refused while a guest is paused for its move, and possible when the guest runs again', () => {
    leave(store, step, { pausedAtMs: 5 })
    expectRefusal()
    stay(store, uuid)
    refuseUpgrade(store)
  })

  it('is refused while the gateway decides on which host a paused guest continues', () => {
    leave(store, step, { pausedAtMs: 5 })
    changeOwnership(store, uuid, { kind: 'hand_over' })
    expectRefusal()
  })

  it('is refused while the memory of a guest is arriving', () => {
    changeOwnership(store, uuid, { kind: 'appoint', generation: 1, isOwner: false })
    changeOwnership(store, uuid, { kind: 'appoint', generation: 2, isOwner: false })
    store.changes.db.prepare("UPDATE guest_owners SET role = 'arriving' WHERE guest_uuid = ?").run(uuid)
    refuseUpgrade(store)
    noteArrival(store, uuid, { isLive: true })
    expectRefusal()
  })
})
