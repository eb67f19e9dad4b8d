import { expect } from 'chai'
import { pino } from 'pino'
import { conflict, type BerthError } from '../../../shared/errors.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { type GuestRecord } from '../record/record.js'
import { GuestStore } from '../record/guest-store.js'
import { changeGuest, type SettingChange, type ChangeContext } from './change.js'
import { pruneDone } from './done.js'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'

describe('a change of a setting of a guest', () => {
  let store: GuestStore
  let context: ChangeContext
  /** Changes that were applied on the host, in order. */
  let told: string[]

  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    store.insert(stoppedGuest)
    context = {
      store,
      log: pino({ level: 'silent' }),
      now: () => 5,
    }
    told = []
  })
  afterEach(() => store.changes.db.close())

  const setReason = (statusReason: string, apply: SettingChange['apply'] = tell): SettingChange => ({
    write: ({ uuid, statusReason: old }) => {
      store.update(uuid, { statusReason })
      return () => store.update(uuid, { statusReason: old })
    },
    apply,
  })
  const tell = (record: GuestRecord): Promise<void> => Promise.resolve(void told.push(record.statusReason))
  const change = (ifRevision: number, what: SettingChange, operationId = ''): Promise<string> =>
    changeGuest(context, { uuid: 'u1', ifRevision, operationId }, what).then(
      (record) => record.statusReason,
      (error: unknown) => (error as { code: string }).code,
    )

  it('is stored in the journal and then applied to the host', async () => {
    expect(await change(0, setReason('a'))).to.equal('a')
    expect(told).to.deep.equal(['a'])
    expect(store.get('u1').statusReason).to.equal('a')
  })

  it('is stored only once, but applied to the host again, if the same request is repeated', async () => {
    await change(0, setReason('a'), 'id-1')
    const { revision } = store.get('u1')
    expect(await change(revision - 1, setReason('b'), 'id-1')).to.equal('a')
    expect(told).to.deep.equal(['a', 'a'])
    expect(store.get('u1').revision).to.equal(revision)
    expect(await change(0, setReason('b'), 'id-2')).to.equal('b')
    expect([pruneDone(store.changes.db, 5, 2), pruneDone(store.changes.db, 5, 1)]).to.deep.equal([0, 1])
    expect([pruneDone(store.changes.db, 5), pruneDone(store.changes.db, 6)]).to.deep.equal([0, 1])
  })

  it('can be repeated with the same request id if the host rejected the first attempt', async () => {
    const refuse = (): Promise<void> => Promise.reject(conflict('host_refuses', 'no'))
    expect(await change(0, setReason('b', refuse), 'id-1')).to.equal('host_refuses')
    expect(await change(0, setReason('b'), 'id-1')).to.equal('b')
  })

  it('is rolled back in the journal and on the host if the host rejects it', async () => {
    await change(0, setReason('a'))
    const refusing = (record: GuestRecord): Promise<void> =>
      record.statusReason === 'b' ? Promise.reject(conflict('host_refuses', 'no')) : tell(record)
    expect(await change(0, setReason('b', refusing))).to.equal('host_refuses')
    expect(store.get('u1').statusReason).to.equal('a')
    expect(told).to.deep.equal(['a', 'a'])
  })

  it('reports the first failure even if the rollback also fails', async () => {
    const refusing = (record: GuestRecord): Promise<void> =>
      Promise.reject(conflict(record.statusReason === '' ? 'second' : 'first', 'no'))
    expect(await change(0, setReason('b', refusing))).to.equal('first')
    expect(store.get('u1').statusReason).to.equal('')
  })

  it('reports in its error whether the change was rolled back', async () => {
    const undone = async (what: SettingChange): Promise<unknown> =>
      changeGuest(context, { uuid: 'u1', ifRevision: 0 }, what).catch((error: BerthError) => error.undone)
    const refuse = (): Promise<void> => Promise.reject(new Error('nft died'))
    const once = (record: GuestRecord): Promise<void> => (record.statusReason === 'b' ? refuse() : Promise.resolve())
    expect([await undone(setReason('b', once)), await undone(setReason('b', refuse))]).to.deep.equal([true, false])
  })

  it('is rejected if the guest has an unexpected revision, even if the guest changes during the request', async () => {
    expect(await change(7, setReason('a'))).to.equal('precondition_failed')
    const { revision } = store.get('u1')
    const both = [change(revision, setReason('a')), change(revision, setReason('b'))]
    expect(await Promise.all(both)).to.deep.equal(['a', 'precondition_failed'])
    const prepare = (): Promise<void> => Promise.resolve(store.update('u1', { wanted: 'running' }))
    const late = { ...setReason('c'), prepare }
    expect(await change(store.get('u1').revision, late)).to.equal('precondition_failed')
    expect(told).to.deep.equal(['a'])
  })

  it('reads the guest twice, and a third time if the guest has changed in between', async () => {
    const [reads, get] = [[] as string[], store.get.bind(store)]
    store.get = (uuid) => (reads.push(uuid), get(uuid))
    expect(await change(0, setReason('a'))).to.equal('a')
    expect(reads).to.have.lengthOf(2)
    const late = setReason('b', () => Promise.resolve(store.update('u1', { statusReason: 'c' })))
    expect(await change(0, late)).to.equal('c')
    expect(reads).to.have.lengthOf(5)
  })

  for (const [status, code] of [
    ['deleting', 'invalid_state'],
    ['error', 'invalid_state'],
    ['creating', 'a'],
    ['stopping', 'a'],
  ] as const)
    it(`is ${code === 'a' ? 'accepted' : 'refused'} for a guest with the status ${status}`, async () => {
      store.update('u1', { status })
      expect(await change(0, setReason('a'))).to.equal(code)
    })

  it('is refused for a missing guest', async () => {
    store.remove('u1')
    expect(await change(0, setReason('a'))).to.equal('not_found')
  })
})
