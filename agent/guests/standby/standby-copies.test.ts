import { expect } from 'chai'
import { pino } from 'pino'
import type { BerthError } from '../../../shared/errors.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { GuestStore } from '../record/guest-store.js'
import { encodeFirewall } from '../snapshots/backup-settings.js'
import { maxCopyBytes, StandbyCopies, type StandbyCopiesParts } from './standby-copies.js'

const uuid = '11111111-1111-4111-8111-111111111111'
const standbyId = '11112222-0000-4000-8000-000000000000'
const [older, newer] = ['standby-11112222-1', 'standby-11112222-2']

describe('the copy of a standby', () => {
  let changes: Changes
  let present: Set<string>
  let countedBytes: number
  let copies: StandbyCopies

  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    present = new Set([older, newer])
    const transfers = {
      countReceived: async () => countedBytes,
      listComplete: async (_uuid: string, confirmed: ReadonlySet<string>) => {
        for (const id of present) if (!confirmed.has(id)) present.delete(id)
        return [...present]
      },
    }
    const context = { store: new GuestStore(changes), transfers, log: pino({ level: 'silent' }) }
    copies = new StandbyCopies({ context, capacity: {} } as unknown as StandbyCopiesParts)
    copies.journal.put({ uuid, standbyId, fromHostId: 'a', diskGb: 2 })
    copies.journal.putReceived(uuid, standbyId, { [older]: 5 })
  })
  afterEach(() => changes.db.close())

  it('accepts an increment while the former snapshot still exists', async () => {
    countedBytes = maxCopyBytes(2)
    const journal = copies.openJournal({ uuid, moveId: standbyId, fromHostId: 'a' })!
    await journal.checkSpace(newer)
    journal.note({ id: newer, bytes: 3, firewall: undefined })
    await journal.listComplete()
    expect([...present]).to.deep.equal([newer])
  })

  it('has the firewall that the guest had at the last increment', () => {
    const journal = copies.openJournal({ uuid, moveId: standbyId, fromHostId: 'a' })!
    const firewall = encodeFirewall({ enabled: true, defaultAction: 'DROP', rules: [] })
    journal.note({ id: older, bytes: 3, firewall })
    journal.forget(newer)
    expect(copies.journal.find(uuid)).to.deep.include({ firewall, received: { [older]: 3 } })
    journal.note({ id: newer, bytes: 3, firewall: undefined })
    expect(copies.journal.find(uuid)?.firewall).to.equal('')
  })

  it('refuses an increment with a damaged firewall', () => {
    const journal = copies.openJournal({ uuid, moveId: standbyId, fromHostId: 'a' })!
    expect(() => journal.note({ id: newer, bytes: 3, firewall: 'damaged' }))
      .to.throw()
      .with.property('code', 'bad_stream')
    expect(copies.journal.find(uuid)?.received).to.deep.equal({ [older]: 5 })
  })

  it('is discarded if increments have made it too large, so that the next one sends the whole disk', async () => {
    countedBytes = maxCopyBytes(2) + 1
    const journal = copies.openJournal({ uuid, moveId: standbyId, fromHostId: 'a' })!
    const refused = await journal.checkSpace(newer).catch((error: BerthError) => error.code)
    expect(refused).to.equal('bad_stream')
    expect([[...present], copies.journal.find(uuid)?.received]).to.deep.equal([[], {}])
  })
})
