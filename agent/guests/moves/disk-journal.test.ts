import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ExpectGuestRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import type { BerthError } from '../../../shared/errors.js'
import { noHistory } from '../../../test/support/guests/no-history.js'
import { smallLimits, stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { CopyJournal } from '../record/copy-journal.js'
import { GuestStore } from '../record/guest-store.js'
import { ArrivalReservations } from './arrival-reservations.js'
import { changeOwnership, writeDetails } from './change-ownership.js'
import { arrivalJournal } from './disk-journal.js'
import type { LiveArrivals } from './live-target.js'
import { OwnerDecisions } from './owner-decisions.js'

const uuid = '11111111-1111-4111-8111-111111111111'
const copy = 'standby-11112222-3'
const gib = 1024 ** 3

describe('a move to the host of the guest’s standby', () => {
  let changes: Changes
  let store: GuestStore
  let present: Set<string>
  let removed: string[]
  let context: never

  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    store = new GuestStore(changes)
    const journal = new CopyJournal(changes.db)
    journal.put({ uuid, standbyId: '11112222-0000-4000-8000-000000000000', fromHostId: 'a', diskGb: 1 })
    journal.putReceived(uuid, '11112222-0000-4000-8000-000000000000', { [copy]: 7 })
    present = new Set([copy, 'round', 'partial'])
    removed = []
    const volumes = {
      listSnapshots: async () => [...present],
      deleteSnapshot: async (_uuid: string, id: string) => present.delete(id),
      removeDisk: async () => void removed.push('disk'),
      remove: async () => void removed.push('all'),
    }
    context = { store, volumes, machines: { findDriver: () => ({}) }, history: noHistory } as never
    changeOwnership(store, uuid, { kind: 'expect', moveId: 'm1', generation: 1 })
    store.insert({ ...stoppedGuest, uuid })
  })
  afterEach(() => changes.db.close())

  it('keeps the copy, offers it as the base of increments, and refuses to let the other host replace it', async () => {
    const listComplete = async (_uuid: string, confirmed: ReadonlySet<string>) => {
      for (const id of present) if (!confirmed.has(id)) present.delete(id)
      return [...present]
    }
    writeDetails(store, uuid, { fromHostId: 'a', received: { round: 5 } })
    const parts = { context: { store, transfers: { listComplete } }, received: { check: () => undefined } }
    const journal = arrivalJournal(parts, { moveId: 'm1', fromHostId: 'a', uuid })
    expect(await journal.listComplete()).to.deep.equal([copy, 'round'])
    expect(() => journal.forget(copy)).to.throw('a snapshot of a standby')
    expect(journal.has(copy), 'a base for the disk of the guest').to.equal(false)
    expect([...present]).to.deep.equal([copy, 'round'])
  })

  it('keeps the copy if the move is canceled', async () => {
    const live = { endArriving: async () => undefined } as unknown as LiveArrivals
    const parts = { context, start: () => undefined, putTraffic: () => undefined }
    await new OwnerDecisions(parts, live).appoint({ uuid, generation: 2, isOwner: false })
    expect(store.find(uuid)).to.equal(undefined)
    expect([[...present], removed]).to.deep.equal([[copy], ['disk']])
  })

  it('deletes the copy when the guest has arrived', async () => {
    const arrived = { document: {}, login: null, limits: smallLimits, isWanted: false }
    writeDetails(store, uuid, { fromHostId: 'a', arrived, snapshot: 'round', received: { round: 5 } })
    const live = { end: async () => undefined } as unknown as LiveArrivals
    const parts = { context, start: () => undefined, putTraffic: () => undefined }
    await new OwnerDecisions(parts, live).appoint({ uuid, generation: 2, isOwner: true })
    expect([...present]).to.deep.equal(['partial'])
    expect(new CopyJournal(changes.db).find(uuid)).to.equal(undefined)
  })

  it('keeps the copy if a later move is prepared', async () => {
    const live = { endArriving: async () => undefined } as unknown as LiveArrivals
    const readDisk = async () => ({ totalBytes: 100 * gib, usedBytes: 0 })
    const parts = { context, capacity: { cpuCores: 4, ramTotalMb: 4096, readDisk }, busy: () => false }
    const guest = { id: 1, uuid, name: 'one', virtualization: 'lxc', templateId: 'debian-12', limits: smallLimits }
    const overcommit = { cpu: 1, ram: 1, disk: 0.001 } // too small: the agent first discards the earlier move
    const request = { moveId: 'm2', generation: 2, fromHostId: 'a', guest: Guest.fromPartial(guest), overcommit }
    const reserved = new ArrivalReservations(parts, live).expect(ExpectGuestRequest.fromPartial(request))
    expect(await reserved.catch((error: BerthError) => error.code)).to.equal('resource_exhausted')
    expect(store.find(uuid)).to.equal(undefined)
    expect([[...present], removed]).to.deep.equal([[copy], ['disk']])
  })
})
