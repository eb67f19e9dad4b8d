import { expect } from 'chai'
import { changesOf, findNextWindow, mergeWindows, type HostWindow } from './host-windows.js'

const hour = 3_600_000
const window = (fields: Partial<HostWindow> = {}): HostWindow => ({
  id: 'w',
  version: 1,
  state: 'announced',
  startsAtMs: 10 * hour,
  endsAtMs: 12 * hour,
  interruptionMinutes: 5,
  message: '',
  closedAtMs: 0,
  ...fields,
})
const active = window({ version: 2, state: 'active' })
const ended = window({ version: 3, state: 'ended', closedAtMs: 12 * hour })
const canceled = window({ version: 2, state: 'canceled', closedAtMs: 11 * hour })

describe('the maintenance windows of a host', () => {
  it('include only the newest 20 of the windows that have ended', () => {
    const closed = Array.from({ length: 25 }, (_, n) => ({ ...ended, id: `w-${n}`, closedAtMs: (12 + n / 10) * hour }))
    const ids = mergeWindows([window()], closed, 20 * hour).map(({ id }) => id)
    expect(ids).to.have.members(['w', ...closed.slice(5).map(({ id }) => id)])
  })
})

describe('the events about a maintenance window on a host', () => {
  for (const [name, before, after, changes] of [
    ['announce a new window', undefined, window(), ['announced']],
    ['report the start of an announced window', window(), active, ['started']],
    ['report the end of an active window', active, ended, ['ended']],
    ['report a changed end time', window(), window({ version: 2, endsAtMs: 13 * hour }), ['changed']],
    ['report a changed text', active, { ...active, version: 3, message: 'later' }, ['changed']],
    ['report no change if a new version changes nothing that the host shows', window(), window({ version: 2 }), []],
    ['report no change if the version is the same', window(), window({ message: 'same version' }), []],
    ['report the cancellation of an open window', window(), canceled, ['canceled']],
    ['do not report the cancellation of a window that the host never showed', undefined, canceled, []],
    ['do not report the removal of a closed window', ended, undefined, []],
    ['report a missed start, and then the end', window(), ended, ['started', 'ended']],
    [
      'report announcement, start and end in this order if the host has missed all three',
      undefined,
      ended,
      ['announced', 'started', 'ended'],
    ],
    ['report a missed change, and then the start', window(), { ...active, message: 'new' }, ['changed', 'started']],
    ['announce a canceled window again if it concerns the host again', canceled, window({ version: 3 }), ['announced']],
    [
      'report announcement and start of an active window that is new on the host',
      undefined,
      active,
      ['announced', 'started'],
    ],
    [
      'report only the end if an active window ended before its planned end',
      active,
      { ...ended, endsAtMs: hour },
      ['ended'],
    ],
  ] as const)
    it(name, () => expect(changesOf(before, after)).to.deep.equal(changes))
})

describe('the maintenance windows of a host', () => {
  const now = 20 * hour
  const longAgo = window({ id: 'old', state: 'ended', closedAtMs: now - 25 * hour })
  for (const [name, known, changed, merged] of [
    ['contain a new window', [], [window()], [window()]],
    ['contain a new version instead of the known one', [window()], [active], [active]],
    ['contain the known version instead of an older one', [active], [window()], [active]],
    ['contain a window that ended less than a day ago', [ended], [], [ended]],
    ['do not contain a window that ended more than a day ago', [longAgo, window()], [], [window()]],
  ] as const)
    it(name, () => expect(mergeWindows(known, changed, now)).to.deep.equal(merged))

  for (const [name, windows, id] of [
    ['have no next window if the host has no windows', [], undefined],
    ['have no next window if all windows are closed', [ended, canceled], undefined],
    [
      'have the earliest announced window as the next window',
      [window({ id: 'b', startsAtMs: 11 * hour }), window({ id: 'a' })],
      'a',
    ],
    [
      'have the active window as the next window, even if an announced window starts earlier',
      [window({ id: 'early', startsAtMs: 1 }), active],
      'w',
    ],
  ] as const)
    it(name, () => expect(findNextWindow(windows)?.id).to.equal(id))
})
