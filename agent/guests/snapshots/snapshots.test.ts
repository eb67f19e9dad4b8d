import { expect } from 'chai'
import { pino } from 'pino'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { noHistory } from '../../../test/support/guests/no-history.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import type { BackupContext } from '../context.js'
import { createFromBackupKind } from '../operations/create-from-backup.js'
import { CopyJournal } from '../record/copy-journal.js'
import { GuestStore } from '../record/guest-store.js'
import { encodeFirewall } from './backup-settings.js'
import { removeStrays, removeVolumes } from './snapshots.js'

const standbyId = '11112222-0000-4000-8000-000000000000'
const gib = 1024 ** 3
const [copy, partial] = ['standby-11112222-3', 'standby-11112222-4']

describe('a guest on the host of its standby', () => {
  let changes: Changes
  let store: GuestStore
  let journal: CopyJournal
  let present: Set<string>
  let removed: string[]
  let prepared: unknown[]
  let context: BackupContext

  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    store = new GuestStore(changes)
    store.insert(stoppedGuest)
    journal = new CopyJournal(changes.db)
    journal.put({ uuid: 'u1', standbyId, fromHostId: 'a', diskGb: 1 })
    journal.putReceived('u1', standbyId, { [copy]: 7 })
    present = new Set([copy, partial, 'old'])
    removed = []
    prepared = []
    const volumes = {
      listSnapshots: async () => [...present],
      deleteSnapshot: async (_uuid: string, id: string) => present.delete(id),
      removeDisk: async (uuid: string) => void removed.push(`disk ${uuid}`),
      remove: async (uuid: string) => void removed.push(`all ${uuid}`),
      prepare: async (_uuid: string, source: object, limitBytes: number) => void prepared.push([source, limitBytes]),
      exchange: async () => 'done',
    }
    const driver = { delete: async () => undefined, volumeLimitBytes: () => gib }
    const machines = { of: () => ({}), driverOf: () => driver }
    const transfers = { countReceived: async () => 1.25 * gib }
    context = { store, volumes, machines, transfers, history: noHistory } as unknown as BackupContext
  })
  afterEach(() => changes.db.close())

  it('keeps the complete copy and deletes partial snapshots while a backup is fetched', async () => {
    await removeStrays(context, 'u1')
    expect([...present]).to.deep.equal([copy])
  })

  it('does not keep a copy that is being removed', async () => {
    journal.markRemoving('u1')
    await removeStrays(context, 'u1')
    expect([...present]).to.deep.equal([])
  })

  it('keeps the copy if its volumes are removed', async () => {
    await removeVolumes(context, 'u1')
    expect([[...present], removed]).to.deep.equal([[copy], ['disk u1']])
  })

  it('deletes everything if its volumes are removed and the host has no copy', async () => {
    journal.forget('u1')
    await removeVolumes(context, 'u1')
    expect(removed).to.deep.equal(['all u1'])
  })

  for (const [name, input] of [
    ['a backup', {}],
    ['the standby', { standbyId }],
  ] as const)
    it(`keeps the copy if the restore from ${name} is undone`, async () => {
      const [volume] = createFromBackupKind(context, {} as never).steps
      await volume!.undo!({ subject: { kind: 'guest', id: 'u1' }, input } as never)
      expect([[...present], removed]).to.deep.equal([[copy], ['disk u1']])
    })

  for (const [name, input, isSet] of [
    ['gets the firewall of the last increment', { standbyId }, true],
    ['gets the firewall of the request instead, if it has one', { standbyId, hasFirewall: true }, false],
  ] as const)
    it(name, async () => {
      const firewall = { enabled: true, defaultAction: 'DROP', rules: [] } as const
      journal.putReceived('u1', standbyId, { [copy]: 7 }, encodeFirewall(firewall))
      const before = store.get('u1').firewall
      const [volume] = createFromBackupKind(context, {} as never).steps
      await volume!.run({ subject: { kind: 'guest', id: 'u1' }, input } as never)
      expect(store.get('u1').firewall).to.deep.equal(isSet ? firewall : before)
    })

  it('gets a disk from the copy, with space for the data of its image', async () => {
    const [volume] = createFromBackupKind(context, {} as never).steps
    await volume!.run({ subject: { kind: 'guest', id: 'u1' }, input: { standbyId } } as never)
    expect(prepared).to.deep.equal([[{ snapshot: copy }, 1.25 * gib]])
    expect(store.get('u1').extraBytes).to.equal(gib / 4)
  })

  it('keeps running if its copy cannot be deleted', async () => {
    const kind = createFromBackupKind(context, {} as never)
    const volumes = { ...context.volumes, deleteSnapshot: async () => Promise.reject(new Error('busy')) }
    Object.assign(context, { volumes })
    const log = pino({ level: 'silent' })
    await kind.steps.at(-1)!.run({ subject: { kind: 'guest', id: 'u1' }, input: { start: false }, log } as never)
    expect(present.has(copy)).to.equal(true)
  })

  it('deletes the copy when the restore has succeeded', async () => {
    const kind = createFromBackupKind(context, {} as never)
    const input = { start: false }
    await kind.steps.at(-1)!.run({ subject: { kind: 'guest', id: 'u1' }, input } as never)
    expect([...present]).to.deep.equal(['old'])
    kind.settle!({ id: 'o1', subject: { kind: 'guest', id: 'u1' }, input: input as never }, { status: 'done' })
    expect(journal.find('u1')).to.equal(undefined)
  })
})
