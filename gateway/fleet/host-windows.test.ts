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
  it('include only the newest 20 of those that have ended', () => {
    const closed = Array.from({ length: 25 }, (_, n) => ({ ...ended, id: `w-${n}`, closedAtMs: (12 + n / 10) * hour }))
    const ids = mergeWindows([window()], closed, 20 * hour).map(({ id }) => id)
    expect(ids).to.have.members(['w', ...closed.slice(5).map(({ id }) => id)])
  })
})

describe('the changes of a maintenance window on a host', () => {
  for (const [name, before, after, changes] of [
    ['announces a new window', undefined, window(), ['announced']],
    ['starts an announced window', window(), active, ['started']],
    ['ends an active window', active, ended, ['ended']],
    ['reports a changed end', window(), window({ version: 2, endsAtMs: 13 * hour }), ['changed']],
    ['reports a changed text', active, { ...active, version: 3, message: 'later' }, ['changed']],
    ['reports no change of facts that the host does not show', window(), window({ version: 2 }), []],
    ['reports a version once', window(), window({ message: 'same version' }), []],
    ['cancels an open window', window(), canceled, ['canceled']],
    ['cancels nothing that the host never showed', undefined, canceled, []],
    ['reports no removal of a closed window', ended, undefined, []],
    ['reports a missed start before the end', window(), ended, ['started', 'ended']],
    ['reports everything that was missed in order', undefined, ended, ['announced', 'started', 'ended']],
    ['reports a missed change before the start', window(), { ...active, message: 'new' }, ['changed', 'started']],
    ['announces a window again that left the host', canceled, window({ version: 3 }), ['announced']],
    ['announces and starts a window that reaches another host', undefined, active, ['announced', 'started']],
    ['does not report an end that was moved forward as a change', active, { ...ended, endsAtMs: hour }, ['ended']],
  ] as const)
    it(name, () => expect(changesOf(before, after)).to.deep.equal(changes))
})

describe('the maintenance windows of a host', () => {
  const now = 20 * hour
  const longAgo = window({ id: 'old', state: 'ended', closedAtMs: now - 25 * hour })
  for (const [name, known, changed, merged] of [
    ['contain a new window', [], [window()], [window()]],
    ['contain the newer version', [window()], [active], [active]],
    ['keep the newer version', [active], [window()], [active]],
    ['keep a window that has just ended', [ended], [], [ended]],
    ['lose a window that ended long ago', [longAgo, window()], [], [window()]],
  ] as const)
    it(name, () => expect(mergeWindows(known, changed, now)).to.deep.equal(merged))

  for (const [name, windows, id] of [
    ['show no window', [], undefined],
    ['show no closed window', [ended, canceled], undefined],
    ['show the earliest announced window', [window({ id: 'b', startsAtMs: 11 * hour }), window({ id: 'a' })], 'a'],
    ['show the active window first', [window({ id: 'early', startsAtMs: 1 }), active], 'w'],
  ] as const)
    it(name, () => expect(findNextWindow(windows)?.id).to.equal(id))
})
