import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import type { HostWindow } from '../fleet/host-windows.js'
import {
  planAnnouncement,
  planCancel,
  planChange,
  planHost,
  planLost,
  planState,
  type NewWindow,
} from './plan-window.js'
import { forgetOldest, hostWindowOf, mostOpenWindows, type Window, type Windows } from './window.js'

const hour = 3_600_000
const day = 24 * hour
const now = 1000 * day
const wanted = (fields: Partial<NewWindow> = {}): NewWindow => ({
  id: 'w',
  startsAtMs: now + hour,
  endsAtMs: now + 2 * hour,
  interruptionMinutes: 0,
  message: '',
  hostIds: ['a', 'b'],
  announcedBy: 'test',
  ...fields,
})
const window = (fields: Partial<Window> = {}): Window => ({
  ...wanted(),
  version: 1,
  state: 'announced',
  closedAtMs: 0,
  announcedAtMs: now,
  ...fields,
})
const active = window({ version: 2, state: 'active', startsAtMs: now - hour })
const ended = window({ version: 3, state: 'ended', closedAtMs: now })
const canceled = window({ version: 2, state: 'canceled', closedAtMs: now })

/** Returns the refused field, or else the code of the error; "": nothing was refused. */
function refusalOf(work: () => unknown): string {
  try {
    work()
    return ''
  } catch (error) {
    const { code, field = code } = error as BerthError
    return field
  }
}

describe('the announcement of maintenance', () => {
  const full = Object.fromEntries(Array.from({ length: mostOpenWindows }, (_, at) => [`${at}`, window()]))
  for (const [name, fields, windows, refused] of [
    ['is accepted if it is valid', {}, {}, ''],
    ['can contain a start that has just passed, because requests take a moment', { startsAtMs: now - 30_000 }, {}, ''],
    ['must not contain a start in the past', { startsAtMs: now - 61_000 }, {}, 'starts_at'],
    ['can contain a start that is 90 days ahead', { startsAtMs: now + 90 * day, endsAtMs: now + 91 * day }, {}, ''],
    [
      'must not contain a start that is more than 90 days ahead',
      { startsAtMs: now + 91 * day, endsAtMs: now + 92 * day },
      {},
      'starts_at',
    ],
    ['must not contain the same time as start and end', { endsAtMs: now + hour }, {}, 'ends_at'],
    ['must not contain an end in the past', { startsAtMs: now - 30_000, endsAtMs: now - 20_000 }, {}, 'ends_at'],
    ['can contain a duration of 7 days', { endsAtMs: now + hour + 7 * day }, {}, ''],
    ['must not contain a duration of more than 7 days', { endsAtMs: now + 2 * hour + 7 * day }, {}, 'ends_at'],
    ['is refused if too many windows are open', {}, full, 'too_many_windows'],
    ['is accepted if enough of the stored windows are closed', {}, { ...full, 0: ended }, ''],
  ] as const)
    it(name, () => expect(refusalOf(() => planAnnouncement(windows, wanted(fields), now))).to.equal(refused))
})

describe('the change of announced maintenance', () => {
  for (const [name, before, change, refused] of [
    ['can move the start', window(), { startsAtMs: now + 1.5 * hour }, ''],
    ['must not move the start to the past', window(), { startsAtMs: now - hour }, 'starts_at'],
    ['must not move the end before the start', window(), { endsAtMs: now + hour }, 'ends_at'],
    ['can extend active maintenance', active, { endsAtMs: now + 4 * hour }, ''],
    ['must not move the start of active maintenance', active, { startsAtMs: now + hour }, 'invalid_state'],
    ['can repeat the start of active maintenance', active, { startsAtMs: active.startsAtMs, message: 'x' }, ''],
    ['must not end active maintenance in the past', active, { endsAtMs: now - 1 }, 'ends_at'],
    ['is refused after the end', ended, { message: 'x' }, 'invalid_state'],
    ['is refused after the cancellation', canceled, { message: 'x' }, 'invalid_state'],
  ] as const)
    it(name, () => expect(refusalOf(() => planChange(before, change, now))).to.equal(refused))

  it('increases the version of the maintenance window', () =>
    expect(planChange(window(), { message: 'x' }, now)).to.include({ version: 2 }))
})

describe('the cancellation of maintenance', () => {
  it('cancels announced maintenance', () =>
    expect(planCancel(window(), now)).to.deep.equal(window({ version: 2, state: 'canceled', closedAtMs: now })))
  it('ends active maintenance immediately', () =>
    expect(planCancel(active, now)).to.deep.equal({
      ...active,
      version: 3,
      state: 'ended',
      endsAtMs: now,
      closedAtMs: now,
    }))
  it('is refused after the end', () => expect(refusalOf(() => planCancel(ended, now))).to.equal('invalid_state'))
})

describe('the state of a maintenance window', () => {
  const { startsAtMs, endsAtMs } = window()
  for (const [name, before, nowMs, state, version] of [
    ['stays announced before the start', window(), startsAtMs - 1, 'announced', 1],
    ['becomes active at the start', window(), startsAtMs, 'active', 2],
    [
      'becomes active before it becomes ended, even if the end of the maintenance has already passed',
      window(),
      endsAtMs + day,
      'active',
      2,
    ],
    ['stays active before the end', active, endsAtMs - 1, 'active', 2],
    ['becomes ended at the end', active, endsAtMs, 'ended', 3],
    ['stays ended', ended, endsAtMs + day, 'ended', 3],
    ['stays canceled', canceled, endsAtMs + day, 'canceled', 2],
  ] as const)
    it(name, () => expect(planState(before, nowMs)).to.include({ state, version }))
})

describe('the maintenance windows that are sent to a host', () => {
  const copy = hostWindowOf
  const elsewhere = window({ version: 4, hostIds: ['b'] })
  for (const [name, known, windows, changed] of [
    ['include a new window', [], [window()], [copy(window())]],
    ['include a newer version of a window', [copy(window())], [active], [copy(active)]],
    ['include an ended window that the host knows as active', [copy(active)], [ended], [copy(ended)]],
    ['do not include a window of other hosts', [], [elsewhere], []],
    ['do not include a version that the host already has', [copy(active)], [active], []],
    ['do not include an older version than the host has', [copy(active)], [window()], []],
    ['do not include closed windows that the host never had', [], [ended, canceled], []],
    [
      'include a window as canceled if it no longer concerns the host',
      [copy(active)],
      [elsewhere],
      [withdrawn(elsewhere)],
    ],
    [
      'do not include a window that no longer concerns the host if the host knows it as closed',
      [copy(ended)],
      [elsewhere],
      [],
    ],
  ] as const)
    it(name, () => expect(planHost({ id: 'a', windows: known }, windows, now)).to.deep.equal(changed))

  it('include a window as canceled if it is still open on the host but the store has lost it', () => {
    const windows: Windows = { present: window({ id: 'present' }) }
    const known = [copy(active), copy(window({ id: 'present' })), copy({ ...ended, id: 'closed' })]
    expect(planLost({ id: 'a', windows: known }, windows, now)).to.deep.equal([withdrawn({ ...active, version: 3 })])
  })

  function withdrawn(one: Window): HostWindow {
    return { ...copy(one), state: 'canceled', closedAtMs: now }
  }
})

describe('the stored maintenance windows', () => {
  it('are all open windows and the newest 100 closed windows', () => {
    const closed = Array.from({ length: 101 }, (_, at) =>
      window({ id: `closed-${at}`, state: 'ended', closedAtMs: at + 1 }),
    )
    const all = [window({ id: 'open' }), ...closed]
    const kept = forgetOldest(Object.fromEntries(all.map((one) => [one.id, one])))
    expect(Object.keys(kept)).to.have.length(101).and.to.include.members(['open', 'closed-1', 'closed-100'])
    expect(kept).not.to.have.property('closed-0')
  })
})
