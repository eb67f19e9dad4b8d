import { expect } from 'chai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { stoppedGuest } from '../../test/support/guests/inserted-guest.js'
import { AlertStore } from '../abuse/alert-store.js'
import type { AlertState } from '../abuse/plan-merge.js'
import { changeOwnership } from '../guests/moves/change-ownership.js'
import { GuestStore } from '../guests/record/guest-store.js'
import { applyWrites, figuresOf, findPoint, indexAt, planWrites, tiers } from '../history/plan-series.js'
import { SeriesFiles } from '../history/series-files.js'
import { OperationStore } from '../operations/operation-store.js'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import { maxTextChars, mostMoved } from './message.js'
import { MovedHistory } from './moved-history.js'

const { uuid } = stoppedGuest
const start = { revision: 0, atMs: 0 }
const nowMs = 1_800_000_000_000 + 30 * 60_000
const transfer = { transferId: 'm1', uuid }
const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

const alertOf = (guestUuid: string, detail = ''): AlertState => ({
  guestUuid,
  guestId: 1,
  guestName: 'web',
  type: 'port_scan',
  severity: 'critical',
  sourceIp: '10.0.0.2',
  targetIp: '198.51.100.9',
  targetPort: 22,
  detail,
  firstAtMs: nowMs - 60_000,
  lastAtMs: nowMs - 1000,
  count: 3,
  action: 'stop_pending',
  stopAtMs: nowMs + 5000,
  criticalAtMs: nowMs - 1000,
  suspicion: { sinceMs: nowMs - 60_000, lastMs: nowMs - 1000 },
})

/** The parts of an agent that store the history of guests, with a journal in memory. */
class HistoryHost {
  readonly directory = mkdtempSync(join(tmpdir(), 'btest-history-'))
  readonly changes = new Changes(openDatabase(':memory:'))
  readonly store = new GuestStore(this.changes)
  readonly operations = new OperationStore(this.changes)
  readonly alerts = new AlertStore(this.changes)
  readonly series = new SeriesFiles(this.directory)
  readonly history = new MovedHistory({ ...this, now: () => nowMs, log: pino({ level: 'silent' }) })

  addTask(n: number, subjectUuid = uuid, message = `because of ${n}`): void {
    const subject = { kind: 'guest', id: subjectUuid, name: 'web', number: 1 }
    const input = { password: 'secret' }
    const times = { requestedBy: 'admin', createdAtMs: nowMs + n }
    this.operations.insert({ id: idOf(n), action: 'stop', subject, requestHash: `hash${n}`, input, ...times })
    this.operations.end(idOf(n), 'failed', nowMs + n, { code: 'failed', message })
  }

  receive(raw: string, to = transfer): void {
    this.changes.transaction(() => this.history.receive(to, raw))
  }

  adopt(): void {
    this.changes.transaction(() => {
      this.history.adopt(transfer)
      changeOwnership(this.store, uuid, { kind: 'appoint', generation: 2, isOwner: true })
      this.history.prune()
    })
  }

  get waiting(): number {
    return this.changes.db.prepare<[], number>('SELECT count(*) FROM received_history').pluck().get()!
  }

  close(): void {
    this.changes.db.close()
    rmSync(this.directory, { recursive: true })
  }
}

const idsOf = ({ operations }: HistoryHost): string[] => operations.list().map(({ id }) => id)

describe('the history of a guest that moves', () => {
  let from: HistoryHost
  let to: HistoryHost
  beforeEach(() => {
    ;[from, to] = [new HistoryHost(), new HistoryHost()]
    from.store.insert(stoppedGuest)
    to.changes.transaction(() => {
      changeOwnership(to.store, uuid, { kind: 'expect', moveId: 'm1', generation: 1 })
      to.store.insert(stoppedGuest)
    })
  })
  afterEach(() => [from, to].forEach((host) => host.close()))

  const send = (): void => to.receive(from.history.collect(uuid, to.history.position(transfer), idOf(0)))

  it('contains ended tasks without their input, and not the task of the move', () => {
    for (const n of [0, 1, 2]) from.addTask(n)
    from.addTask(3, 'another guest')
    send()
    expect(to.operations.list()).to.deep.equal([])
    to.adopt()
    const moved = to.operations.list().sort((a, b) => a.createdAtMs - b.createdAtMs)
    expect(moved.map(({ id, error, moved }) => [id, error, moved])).to.deep.equal([
      [idOf(1), 'because of 1', true],
      [idOf(2), 'because of 2', true],
    ])
    expect(to.operations.findJournaled(idOf(1))).to.deep.include({ requestHash: 'hash1', input: null })
    expect(to.waiting).to.equal(0)
  })

  it('contains alerts with their recorded flows, planned stops and all other fields', () => {
    const flow = {
      atMs: nowMs,
      outcome: 'refused',
      target: '198.51.100.9',
      protocol: 'tcp',
      port: 22,
      count: 4,
    } as const
    const id = from.alerts.put(undefined, alertOf(uuid), [flow])
    send()
    to.adopt()
    const { revision: _revision, ...found } = to.alerts.find(id)!
    const { id: guestId, name: guestName } = stoppedGuest
    expect(found).to.deep.equal({ ...alertOf(uuid), guestId, guestName, id, moved: true })
    expect(to.alerts.samplesOf(uuid, 1)).to.deep.equal([flow])
  })

  it('sends only what has changed since the last part, and can be repeated', () => {
    from.addTask(1)
    const id = from.alerts.put(undefined, alertOf(uuid))
    send()
    from.alerts.put(id, alertOf(uuid, 'changed'))
    const part = from.history.collect(uuid, to.history.position(transfer), '')
    const { operations, alerts } = JSON.parse(part) as Record<'operations' | 'alerts', object[]>
    expect([operations.length, alerts.length]).to.deep.equal([0, 1])
    for (let times = 0; times < 2; times++) to.receive(part)
    to.adopt()
    expect(to.alerts.find(id)).to.include({ detail: 'changed' })
    expect(to.operations.list()).to.have.lengthOf(1)
  })

  it('contains the usage, also of minutes that only the memory of the former host has', () => {
    const now = indexAt(tiers.day, nowMs)
    const point = (index: number) => ({ index, figures: figuresOf({ cpuPercent: 10 }) })
    const hour = Array.from({ length: 60 }, (_, at) => point(indexAt(tiers.month, nowMs) * 60 - 60 + at))
    const written = Buffer.alloc(from.series.read(uuid).length)
    applyWrites(written, planWrites(tiers.day, hour))
    from.series.write(uuid, [{ offset: 0, bytes: written }])
    from.series.pending.set(uuid, [point(now - 2)])
    send()
    to.adopt()
    const series = to.series.read(uuid)
    expect(findPoint(series, tiers.day, now - 2)?.cpuPercent).to.equal(10)
    expect(findPoint(series, tiers.day, now - 1)).to.equal(undefined)
    expect(findPoint(series, tiers.month, indexAt(tiers.month, nowMs) - 1)?.cpuPercent).to.equal(10)
  })

  it('does not change tasks and alerts of the target that have the same id', () => {
    for (const n of [1, 2]) from.addTask(n)
    const id = from.alerts.put(undefined, alertOf(uuid))
    to.addTask(1, 'another guest')
    to.addTask(2, 'a third guest')
    to.operations.remove(idOf(2), nowMs)
    to.alerts.put(id, alertOf('another guest'))
    send()
    to.adopt()
    expect(to.operations.get(idOf(1)).subject.id).to.equal('another guest')
    expect(to.operations.find(idOf(2))).to.equal(undefined)
    expect(to.alerts.find(id)?.guestUuid).to.equal('another guest')
  })

  const sentExcept = (except: string) => ({ revision: from.changes.revision, except })

  it('stays on the former host if it changed after it was sent', () => {
    from.addTask(1)
    const alert = from.alerts.put(undefined, alertOf(uuid))
    const { revision } = from.changes
    from.addTask(2)
    const newAlert = from.alerts.put(undefined, alertOf(uuid, 'new'))
    from.changes.transaction(() => from.history.removeLeft(uuid, { revision, except: '' }))
    expect(idsOf(from)).to.deep.equal([idOf(2)])
    expect([from.alerts.find(alert), from.alerts.find(newAlert)?.detail]).to.deep.equal([undefined, 'new'])
  })

  it('is sent without its oldest entries if it is too long', () => {
    const long = '€'.repeat(maxTextChars)
    for (let n = 1; n <= mostMoved.operation; n++) from.addTask(n, uuid, long)
    for (let n = 1; n <= mostMoved.alert; n++) from.alerts.put(undefined, alertOf(uuid, long))
    const text = from.history.collect(uuid, start, '')
    expect(Buffer.byteLength(text)).to.be.below(7.5 * 1024 ** 2)
    to.receive(text)
    to.adopt()
    expect(idsOf(to)).to.include(idOf(mostMoved.operation)).and.not.include(idOf(1))
  })

  it('moves back with the guest to its first host, and away again', () => {
    for (const n of [1, 2]) from.addTask(n)
    send()
    to.changes.transaction(() => to.history.adopt(transfer))
    from.changes.transaction(() => from.history.removeLeft(uuid, sentExcept(idOf(2))))
    expect(idsOf(from)).to.deep.equal([idOf(2)])
    const back = { transferId: 'm2', uuid }
    from.receive(to.history.collect(uuid, start, ''), back)
    from.changes.transaction(() => from.history.adopt(back))
    expect(idsOf(from)).to.have.members([idOf(1), idOf(2)])
    for (let times = 0; times < 2; times++)
      from.changes.transaction(() => from.history.removeLeft(uuid, sentExcept('')))
    expect(idsOf(from)).to.deep.equal([])
  })

  it('is deleted on the target if the move is canceled, and stays for the copy of a standby', () => {
    from.addTask(1)
    send()
    to.receive(from.history.collect(uuid, start, ''), { transferId: 's1', uuid })
    to.changes.db.exec(`INSERT INTO standby_copies VALUES ('${uuid}', 's1', 'a', 1, '{}', '', 0)`)
    to.changes.transaction(() => {
      changeOwnership(to.store, uuid, { kind: 'appoint', generation: 2, isOwner: false })
      to.store.remove(uuid)
      to.history.prune()
    })
    expect(to.history.position(transfer)).to.deep.equal(start)
    expect(to.history.position({ transferId: 's1', uuid })).not.to.deep.equal(start)
    expect([to.operations.list(), to.alerts.list(0)]).to.deep.equal([[], []])
  })

  describe('from a hostile host', () => {
    const task = { id: idOf(1), action: 'stop', subjectKind: 'guest', status: 'done', progress: 100, errorCode: '' }
    const times = { createdAtMs: 1, startedAtMs: 1, finishedAtMs: 1, downtimeMs: 0 }
    const good = { ...task, ...times, error: '', requestedBy: 'admin', requestHash: '' }
    const { guestUuid: _uuid, guestId: _id, guestName: _name, ...state } = alertOf(uuid)
    const goodAlert = { ...state, id: idOf(9), samples: [] }
    const message = { position: start, operations: [] as object[], alerts: [] as object[] }
    const series = { day: '', month: '', year: '' }

    for (const [name, change] of [
      ['of a task that has not ended', { status: 'running' }],
      ['with an invalid id', { id: '../x' }],
      ['of another kind of subject', { subjectKind: 'image' }],
      ['with a text as its time', { finishedAtMs: 'today' }],
      ['with a time in the far future', { createdAtMs: 1e300 }],
      ['with a time in the near future', { finishedAtMs: nowMs + 3_600_000 }],
      ['with a very long text', { requestedBy: 'x'.repeat(1000) }],
      ['with an impossible progress', { progress: 101 }],
    ] as const)
      it(`drops an entry ${name}, and keeps the others`, () => {
        const bad = { ...good, id: idOf(2), ...change }
        to.receive(JSON.stringify({ ...message, operations: [good, bad], series }))
        to.adopt()
        expect(to.operations.list().map(({ id }) => id)).to.deep.equal([idOf(1)])
      })

    const late = nowMs + 3_600_000
    for (const [name, change] of [
      ['that began in the future', { firstAtMs: late }],
      ['that ends in the future', { lastAtMs: late }],
      ['that became critical in the future', { criticalAtMs: late }],
      ['with a suspicion in the future', { suspicion: { sinceMs: nowMs, lastMs: late } }],
      ['with a stop in the distant future', { action: 'canceled', stopAtMs: nowMs + 30 * 24 * 3_600_000 }],
      ['of an unknown type', { type: 'tomorrow' }],
      ['of an unknown action', { action: 'explode' }],
      ['with an invalid port', { targetPort: 70_000 }],
      ['with too many flows', { samples: Array.from({ length: 51 }, () => ({})) }],
    ] as const)
      it(`drops an alert ${name}, and keeps the others`, () => {
        const bad = { ...goodAlert, id: idOf(8), ...change }
        to.receive(JSON.stringify({ ...message, alerts: [bad, goodAlert], series }))
        to.adopt()
        expect(to.alerts.list(0).map(({ id }) => id)).to.deep.equal([idOf(9)])
      })

    it('belongs to the guest of the move, whatever the message says', () => {
      const foreign = { guestUuid: 'other', guestId: 77, guestName: 'other', subject_id: 'other', moved: false }
      const items = { operations: [{ ...good, ...foreign }], alerts: [{ ...goodAlert, ...foreign }] }
      to.receive(JSON.stringify({ ...message, ...items, series }))
      to.adopt()
      const { id: number, name } = stoppedGuest
      expect(to.operations.get(idOf(1)).subject).to.deep.equal({ kind: 'guest', id: uuid, name, number })
      expect(to.alerts.find(idOf(9))).to.include({ guestUuid: uuid, guestId: number, guestName: name })
    })

    it('is limited to the newest entries', () => {
      const many = (first: number) =>
        Array.from({ length: mostMoved.operation }, (_, n) => ({
          ...good,
          id: idOf(first + n),
          createdAtMs: first + n,
        }))
      to.receive(JSON.stringify({ ...message, operations: many(1), series }))
      to.receive(JSON.stringify({ ...message, operations: many(5000), series }))
      to.adopt()
      const times = to.operations.list().map(({ createdAtMs }) => createdAtMs)
      expect([times.length, Math.min(...times)]).to.deep.equal([mostMoved.operation, 5000])
    })

    for (const [name, raw] of [
      ['no JSON', '{'],
      ['no history', '{}'],
      ['too many tasks', { operations: Array.from({ length: 1001 }, () => good) }],
      ['too many alerts', { alerts: Array.from({ length: 201 }, () => goodAlert) }],
      ['rings that are too long', { series: { ...series, day: 'A'.repeat(100_000) } }],
      ['an invalid position', { position: { revision: -1, atMs: 0 } }],
    ] as const)
      it(`is refused with ${name}`, () => {
        const text = typeof raw === 'string' ? raw : JSON.stringify({ ...message, series, ...raw })
        expect(() => to.receive(text)).to.throw('malformed message')
        expect(to.waiting).to.equal(0)
      })
  })
})
