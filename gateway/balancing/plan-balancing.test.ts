import { expect } from 'chai'
import {
  defaultSettings,
  initialState,
  type AutomaticMove,
  type BalancingSettings,
  type BalancingState,
} from './balancing-record.js'
import {
  findBlock,
  isExcluded,
  isPaused,
  planWait,
  recordCheck,
  recordFailure,
  recordMove,
  settleMoves,
  type BalancedHost,
  type MovedGuestFacts,
  type SettleFacts,
  type WaitFacts,
} from './plan-balancing.js'

const minute = 60_000
const hour = 60 * minute
const settings: BalancingSettings = { ...defaultSettings, enabled: true }
const move: AutomaticMove = {
  taskId: 'task',
  uuid: 'guest',
  name: 'web',
  fromHostId: 'a',
  toHostId: 'b',
  reason: 'load',
  state: 'active',
  message: '',
  beganAtMs: 1000,
  endedAtMs: 0,
}
const host = (id: string, more: Partial<BalancedHost> = {}): BalancedHost => ({
  id,
  isOffline: false,
  isDrained: false,
  isInMaintenance: false,
  ...more,
})
const unknown: MovedGuestFacts = {
  hostId: undefined,
  areAllOnline: true,
  task: undefined,
  isPending: false,
  areHostsInFleet: true,
}
const calm: WaitFacts = { nowMs: 10 * hour, timeOfDay: '12:00', isUpgrading: false, hosts: [host('a'), host('b')] }

describe('automatic balancing', () => {
  for (const [name, changed, state, facts, expected] of [
    ['waits for nothing if it is enabled, and no check was made', {}, {}, {}, ''],
    ['waits while it is disabled', { enabled: false }, {}, {}, 'disabled'],
    ['waits for the end of an upgrade of the fleet', {}, {}, { isUpgrading: true }, 'upgrade'],
    ['waits for a host that is offline', {}, {}, { hosts: [host('a', { isOffline: true })] }, 'host_offline a'],
    [
      'waits for a host that is drained',
      {},
      {},
      { hosts: [host('a'), host('b', { isDrained: true })] },
      'host_drained b',
    ],
    ['waits for maintenance', {}, {}, { hosts: [host('a', { isInMaintenance: true })] }, 'host_maintenance a'],
    ['waits for its daily window', { windowStart: '02:00', windowEnd: '04:00' }, {}, {}, 'window'],
    ['begins with the first minute of its window', { windowStart: '12:00', windowEnd: '13:00' }, {}, {}, ''],
    ['does not begin in the last minute of its window', { windowStart: '11:00', windowEnd: '12:00' }, {}, {}, 'window'],
    ['begins in a window over midnight', { windowStart: '22:00', windowEnd: '05:00' }, {}, { timeOfDay: '23:59' }, ''],
    ['also begins after midnight', { windowStart: '22:00', windowEnd: '05:00' }, {}, { timeOfDay: '04:59' }, ''],
    [
      'waits between two windows over midnight',
      { windowStart: '22:00', windowEnd: '05:00' },
      {},
      { timeOfDay: '05:00' },
      'window',
    ],
    ['waits for an active move', {}, { moves: [move] }, {}, 'moving'],
    ['begins a second move if two may be active', { parallel: 2 }, { moves: [move] }, {}, ''],
    ['does not count ended moves', {}, { moves: [{ ...move, state: 'done' }] }, {}, ''],
    ['waits for the interval', {}, { checkedAtMs: calm.nowMs - 14 * minute, hasMoved: true }, {}, 'interval'],
    ['says that the last check found no move', {}, { checkedAtMs: calm.nowMs - 14 * minute }, {}, 'no_move'],
    ['checks again after the interval', {}, { checkedAtMs: calm.nowMs - 15 * minute }, {}, ''],
  ] as const satisfies readonly (readonly [
    string,
    Partial<BalancingSettings>,
    Partial<BalancingState>,
    Partial<WaitFacts>,
    string,
  ])[])
    it(name, () => {
      const wait = planWait({ ...settings, ...changed }, { ...initialState, ...state }, { ...calm, ...facts })
      expect(wait ? `${wait.code} ${wait.hostId}`.trim() : '').to.equal(expected)
    })

  for (const [name, facts, expected] of [
    ['continues while its task runs', { hostId: 'a', task: { status: 'running', error: '' } }, 'active'],
    ['is done with its task', { hostId: 'a', task: { status: 'done', error: '' } }, 'done'],
    ['fails with its task', { hostId: 'a', task: { status: 'failed', error: 'no space' } }, 'failed: no space'],
    [
      'fails if its task is canceled',
      { hostId: 'a', task: { status: 'canceled', error: '' } },
      'failed: the task was canceled',
    ],
    ['is done if its guest is on the target, and no task is known', { hostId: 'b' }, 'done'],
    ['continues if its task is not known yet', { hostId: 'a' }, 'active'],
    ['fails if its guest was deleted', {}, 'failed: the container was deleted'],
    ['continues if an offline host possibly has its guest', { areAllOnline: false }, 'active'],
    [
      'fails if its guest is on a third host',
      { hostId: 'c' },
      'failed: somebody has moved the container to another host',
    ],
  ] as const satisfies readonly (readonly [string, Partial<MovedGuestFacts>, string])[])
    it(`has a move that ${name}`, () => {
      const before = { ...initialState, moves: [move] }
      const after = settleMoves(before, { isEnabled: true, nowMs: 5000, factsOf: () => ({ ...unknown, ...facts }) })
      const [{ state, message, endedAtMs } = move] = after.moves
      expect(message ? `${state}: ${message}` : state).to.equal(expected)
      expect([after === before, endedAtMs]).to.deep.equal(expected === 'active' ? [true, 0] : [false, 5000])
    })

  const disabled = { isEnabled: false }
  const removed = { areHostsInFleet: false }
  const late = { nowMs: move.beganAtMs + 5 * minute }
  for (const [name, facts, moved, expected] of [
    ['continues', {}, {}, 'active'],
    ['continues until 5 minutes have passed', { nowMs: late.nowMs - 1 }, {}, 'active'],
    ['fails after 5 minutes', late, {}, 'failed: the move could not begin in time'],
    ['continues after 5 minutes if it has possibly begun', late, { isPending: false }, 'active'],
    [
      'continues after 5 minutes if its task is known',
      late,
      { isPending: false, task: { status: 'running', error: '' } },
      'active',
    ],
    [
      'fails if automatic balancing is disabled',
      disabled,
      {},
      'failed: automatic balancing was disabled before the move began',
    ],
    ['continues if it has possibly begun, although disabled', disabled, { isPending: false }, 'active'],
    [
      'fails if one of its hosts was removed',
      {},
      removed,
      'failed: a host of the move was removed from the fleet before the move began',
    ],
    ['continues without one of its hosts if it has possibly begun', {}, { ...removed, isPending: false }, 'active'],
    ['is done if its guest is on the target', late, { hostId: 'b' }, 'done'],
    [
      'fails after 5 minutes even if its guest is not known',
      late,
      { hostId: undefined, areAllOnline: false },
      'failed: the move could not begin in time',
    ],
  ] as const satisfies readonly (readonly [string, Partial<SettleFacts>, Partial<MovedGuestFacts>, string])[])
    it(`has a recorded move that ${name}`, () => {
      const factsOf = () => ({ ...unknown, hostId: 'a', isPending: true, ...moved })
      const { moves } = settleMoves(
        { ...initialState, moves: [move] },
        { isEnabled: true, nowMs: 5000, factsOf, ...facts },
      )
      const [{ state, message } = move] = moves
      expect(message ? `${state}: ${message}` : state).to.equal(expected)
    })

  for (const [name, changed, facts, expected] of [
    ['at any time without a window', {}, {}, ''],
    ['only while it is enabled', { enabled: false }, {}, 'disabled'],
    ['only in the daily window', { windowStart: '02:00', windowEnd: '04:00' }, {}, 'window'],
    ['only without an upgrade', {}, { isUpgrading: true }, 'upgrade'],
    ['only while all hosts are online', {}, { hosts: [host('a', { isOffline: true })] }, 'host_offline'],
  ] as const satisfies readonly (readonly [string, Partial<BalancingSettings>, Partial<WaitFacts>, string])[])
    it(`begins recorded moves ${name}`, () =>
      expect(findBlock({ ...settings, ...changed }, { ...calm, ...facts })?.code ?? '').to.equal(expected))

  it('pauses a guest from the begin of its move, and again from its end or failure', () => {
    const begun = recordMove(initialState, move)
    expect([begun.checkedAtMs, begun.hasMoved, begun.movedAt]).to.deep.equal([1000, true, { guest: 1000 }])
    const failed = recordFailure(begun, 'task', 'no space', 9000)
    expect(failed.moves[0]).to.deep.include({ state: 'failed', message: 'no space', endedAtMs: 9000 })
    expect(failed.movedAt).to.deep.equal({ guest: 9000 })
    expect(recordFailure(failed, 'task', 'again', 10_000)).to.equal(failed)
  })

  it('ends the pause of a guest after the hours of the setting', () => {
    const movedAt = { first: hour, second: 2 * hour }
    const nowMs = 25 * hour
    expect(Object.values(movedAt).map((at) => isPaused(settings, at, nowMs))).to.deep.equal([false, true])
    const check = { nowMs, hasMoved: false, refused: [], failedDryRuns: new Map() }
    expect(recordCheck({ ...initialState, movedAt }, settings, check).movedAt).to.deep.equal({ second: 2 * hour })
  })

  for (const [name, code, ageHours, changed, expected] of [
    ['excludes a guest after a failed dry run', 'offline_required', 23, {}, true],
    ['tries a guest again after the hours of the setting', 'offline_required', 24, {}, false],
    [
      'tries a guest again after fewer hours if the setting is changed',
      'offline_required',
      23,
      { pauseHours: 1 },
      false,
    ],
    ['excludes a guest whose addresses would change', 'changes_addresses', 1, {}, true],
    [
      'tries a guest again as soon as the settings allow other addresses',
      'changes_addresses',
      1,
      { changesAddresses: true },
      false,
    ],
  ] as const satisfies readonly (readonly [string, string, number, Partial<BalancingSettings>, boolean])[])
    it(name, () => {
      const nowMs = 100 * hour
      const failed = { atMs: nowMs - ageHours * hour, code, message: '' }
      const now = { ...settings, ...changed }
      expect(isExcluded(now, failed, nowMs)).to.equal(expected)
      const check = { nowMs, hasMoved: false, refused: [], failedDryRuns: new Map() }
      const { failedDryRuns = {} } = recordCheck({ ...initialState, failedDryRuns: { guest: failed } }, now, check)
      expect(failedDryRuns).to.deep.equal(expected ? { guest: failed } : {})
    })

  it('remembers failed dry runs of earlier checks, at most the last 1000', () => {
    const failed = (atMs: number) => ({ atMs, code: 'offline_required', message: '' })
    const old = Array.from({ length: 1000 }, (_, at) => [`old${at}`, failed(2 * hour + at)])
    const state = { ...initialState, failedDryRuns: Object.fromEntries(old) }
    const found = new Map([['new', failed(3 * hour)]])
    const check = { nowMs: 3 * hour, hasMoved: false, refused: [], failedDryRuns: found }
    const { failedDryRuns = {} } = recordCheck(state, settings, check)
    expect(Object.keys(failedDryRuns)).to.have.length(1000)
    expect(failedDryRuns).to.include.keys('new', 'old999', 'old1')
    expect(failedDryRuns).not.to.have.property('old0')
  })

  it('retains the last 20 ended moves, and all active ones', () => {
    const old = Array.from({ length: 25 }, (_, at) => ({ ...move, taskId: `${at}`, state: 'done' as const }))
    const active = [move, { ...move, taskId: 'second' }]
    const state = recordFailure({ ...initialState, moves: [...active, ...old] }, 'second', 'no space', 1)
    expect(state.moves.map(({ taskId }) => taskId)).to.deep.equal([
      'task',
      'second',
      ...Array.from({ length: 19 }, (_, at) => `${at}`),
    ])
  })
})
