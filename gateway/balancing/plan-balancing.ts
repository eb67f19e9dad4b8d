import type {
  AutomaticMove,
  BalancingSettings,
  BalancingState,
  FailedDryRun,
  RefusedGuest,
  Wait,
} from './balancing-record.js'

/* Pure decisions of automatic balancing: whether it may act now, and how its stored state changes. */

/** Facts about a host that decide whether guests may move automatically. */
export interface BalancedHost {
  readonly id: string
  readonly isOffline: boolean
  /** True while a drain changes the guests of the host. */
  readonly isDrained: boolean
  readonly isInMaintenance: boolean
}

export interface WaitFacts {
  readonly nowMs: number
  /** Present time of day as HH:MM in the time zone of the server. */
  readonly timeOfDay: string
  readonly isUpgrading: boolean
  readonly hosts: readonly BalancedHost[]
}

/** Facts about the guest of an active move. */
export interface MovedGuestFacts {
  /** Host that has the guest. undefined: no host reports the guest. */
  readonly hostId: string | undefined
  /** True if all hosts are online. A guest that no host reports then does not exist. */
  readonly areAllOnline: boolean
  readonly task: { readonly status: string; readonly error: string } | undefined
  /** True if the move was recorded, but has certainly not begun. */
  readonly isPending: boolean
  /** True if both hosts of the move belong to the fleet. */
  readonly areHostsInFleet: boolean
}

export interface SettleFacts {
  readonly isEnabled: boolean
  readonly nowMs: number
  readonly factsOf: (move: AutomaticMove) => MovedGuestFacts
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Maximum number of stored moves that have ended. */
const mostEnded = 20
/** Maximum number of stored dry runs that have failed. */
const mostFailedDryRuns = 1000
/** Time in ms after which a recorded move fails if it has not begun. */
const beginWithinMs = 5 * minuteMs

/** Decides whether a check may be made now. @returns the first reason to wait; undefined: a check may be made */
export function planWait(settings: BalancingSettings, state: BalancingState, facts: WaitFacts): Wait | undefined {
  const blocked = findBlock(settings, facts)
  if (blocked) return blocked
  if (countFree(settings, state) === 0) return wait('moving')
  if (facts.nowMs < nextCheckMs(settings, state)) return wait(state.hasMoved ? 'interval' : 'no_move')
  return undefined
}

/** Decides whether moves may begin now, also those that were recorded earlier. @returns the first reason to wait */
export function findBlock(settings: BalancingSettings, facts: WaitFacts): Wait | undefined {
  if (!settings.enabled) return wait('disabled')
  if (facts.isUpgrading) return wait('upgrade')
  const blocked = findBlockedHost(facts.hosts)
  if (blocked) return blocked
  return isInWindow(settings, facts.timeOfDay) ? undefined : wait('window')
}

function findBlockedHost(hosts: readonly BalancedHost[]): Wait | undefined {
  const reasons = [
    ['host_offline', 'isOffline'],
    ['host_drained', 'isDrained'],
    ['host_maintenance', 'isInMaintenance'],
  ] as const
  for (const [code, is] of reasons) {
    const host = hosts.find((one) => one[is])
    if (host) return wait(code, host.id)
  }
  return undefined
}

function wait(code: Wait['code'], hostId = ''): Wait {
  return { code, hostId }
}

/** True if the time of day is in the daily window, which can contain midnight. */
function isInWindow({ windowStart: start, windowEnd: end }: BalancingSettings, time: string): boolean {
  if (start === end) return true
  return start < end ? start <= time && time < end : start <= time || time < end
}

/** Returns the earliest time of the next check in ms since 1970. */
export function nextCheckMs({ intervalMinutes }: BalancingSettings, { checkedAtMs }: BalancingState): number {
  return checkedAtMs === 0 ? 0 : checkedAtMs + intervalMinutes * minuteMs
}

/** Returns the number of moves that may begin in addition to the active ones. */
export function countFree({ parallel }: BalancingSettings, { moves }: BalancingState): number {
  return Math.max(0, parallel - moves.filter(isActive).length)
}

export function isActive({ state }: AutomaticMove): boolean {
  return state === 'active'
}

/** True if the guest must stay on its host. @param movedAtMs time of a move by anybody in ms since 1970. 0: none */
export function isPaused({ pauseHours }: BalancingSettings, movedAtMs: number, nowMs: number): boolean {
  return movedAtMs !== 0 && nowMs < movedAtMs + pauseHours * hourMs
}

/** True if the guest gets no further dry run at present. */
export function isExcluded(settings: BalancingSettings, { atMs, code }: FailedDryRun, nowMs: number): boolean {
  return isPaused(settings, atMs, nowMs) && !(code === 'changes_addresses' && settings.changesAddresses)
}

/** Records a move that is about to begin, as the result of the present check. */
export function recordMove(state: BalancingState, move: AutomaticMove): BalancingState {
  const movedAt = { ...state.movedAt, [move.uuid]: move.beganAtMs }
  return { ...state, moves: [move, ...state.moves], movedAt, checkedAtMs: move.beganAtMs, hasMoved: true }
}

/** Result of a check of the fleet. */
export interface Check {
  readonly nowMs: number
  readonly hasMoved: boolean
  readonly refused: readonly RefusedGuest[]
  /** Dry runs of this check that have failed, by uuid. */
  readonly failedDryRuns: ReadonlyMap<string, FailedDryRun>
}

/** Records the end of a check, and forgets guests whose pause has ended. */
export function recordCheck(state: BalancingState, settings: BalancingSettings, check: Check): BalancingState {
  const { nowMs, hasMoved, refused } = check
  const paused = Object.entries(state.movedAt).filter(([, movedAtMs]) => isPaused(settings, movedAtMs, nowMs))
  const failed = Object.entries({ ...state.failedDryRuns, ...Object.fromEntries(check.failedDryRuns) })
    .filter(([, dryRun]) => isExcluded(settings, dryRun, nowMs))
    .sort(([, a], [, b]) => b.atMs - a.atMs)
  return {
    ...state,
    checkedAtMs: nowMs,
    hasMoved,
    refused,
    movedAt: Object.fromEntries(paused),
    failedDryRuns: Object.fromEntries(failed.slice(0, mostFailedDryRuns)),
  }
}

/** Records that a move could not begin, or has failed. */
export function recordFailure(state: BalancingState, taskId: string, message: string, nowMs: number): BalancingState {
  return endMoves(state, nowMs, (move) => (move.taskId === taskId ? { state: 'failed', message } : undefined))
}

/** Records the results of active moves. Returns the same state if none of them has ended. */
export function settleMoves(state: BalancingState, facts: SettleFacts): BalancingState {
  return endMoves(state, facts.nowMs, (move) => resultOf(move, facts))
}

type MoveResult = Pick<AutomaticMove, 'state' | 'message'>

function endMoves(
  state: BalancingState,
  nowMs: number,
  resultOf: (move: AutomaticMove) => MoveResult | undefined,
): BalancingState {
  const ended = new Map(
    state.moves.filter(isActive).flatMap((move): [AutomaticMove, MoveResult][] => {
      const result = resultOf(move)
      return result ? [[move, result]] : []
    }),
  )
  if (ended.size === 0) return state
  const moves = state.moves.map((move) => (ended.has(move) ? { ...move, ...ended.get(move), endedAtMs: nowMs } : move))
  const movedAt = Object.fromEntries([...ended.keys()].map(({ uuid }) => [uuid, nowMs]))
  return { ...state, moves: forgetOldest(moves), movedAt: { ...state.movedAt, ...movedAt } }
}

/** @returns undefined if the move has not ended */
function resultOf(move: AutomaticMove, facts: SettleFacts): MoveResult | undefined {
  const moved = facts.factsOf(move)
  const { hostId, areAllOnline, task } = moved
  if (task) return resultOfTask(task)
  if (hostId === move.toHostId) return done
  if (hostId === undefined && areAllOnline) return failed('the container was deleted')
  if (hostId !== undefined && hostId !== move.fromHostId)
    return failed('somebody has moved the container to another host')
  return moved.isPending ? resultOfPending(move, facts, moved) : undefined
}

function resultOfTask({ status, error }: NonNullable<MovedGuestFacts['task']>): MoveResult | undefined {
  if (status === 'done') return done
  if (status === 'failed') return failed(error)
  return status === 'canceled' ? failed('the task was canceled') : undefined
}

/** Returns why a move that has not begun must not begin any more. */
function resultOfPending(
  { beganAtMs }: AutomaticMove,
  { isEnabled, nowMs }: SettleFacts,
  { areHostsInFleet }: MovedGuestFacts,
): MoveResult | undefined {
  if (!areHostsInFleet) return failed('a host of the move was removed from the fleet before the move began')
  if (!isEnabled) return failed('automatic balancing was disabled before the move began')
  return nowMs - beganAtMs < beginWithinMs ? undefined : failed('the move could not begin in time')
}

const done: MoveResult = { state: 'done', message: '' }

function failed(message: string): MoveResult {
  return { state: 'failed', message }
}

function forgetOldest(moves: readonly AutomaticMove[]): AutomaticMove[] {
  const surplus = new Set(moves.filter((move) => !isActive(move)).slice(mostEnded))
  return moves.filter((move) => !surplus.has(move))
}
