import type { Suggestion } from '../fleet/move-contract.js'

export const balanceReasons = ['rule', 'load'] as const
export type BalanceReason = Suggestion['reason']

/** Settings of automatic balancing, shared by all gateways. */
export interface BalancingSettings {
  readonly enabled: boolean
  /** Suggestions that are carried out. */
  readonly reasons: readonly BalanceReason[]
  /** Minutes between two checks of the fleet. */
  readonly intervalMinutes: number
  /** Greatest number of automatic moves at the same time. */
  readonly parallel: number
  /** Minimum decrease of the load of the more loaded host by a move for `load`, in percentage points. */
  readonly minGain: number
  /** Start of the daily window as HH:MM in the time zone of the server. The same as `windowEnd`: no window. */
  readonly windowStart: string
  /** End of the daily window as HH:MM. It is on the next day if it is before the start. */
  readonly windowEnd: string
  /** Hours for which a guest stays on its host after a move, or after a failed attempt. */
  readonly pauseHours: number
  /** True: guests also move if their addresses or ports change. */
  readonly changesAddresses: boolean
}

export const defaultSettings: BalancingSettings = {
  enabled: false,
  reasons: balanceReasons,
  intervalMinutes: 15,
  parallel: 1,
  minGain: 10,
  windowStart: '00:00',
  windowEnd: '00:00',
  pauseHours: 24,
  changesAddresses: false,
}

export const automaticMoveStates = ['active', 'done', 'failed'] as const

/** A move that a gateway has begun by itself. */
export interface AutomaticMove {
  readonly taskId: string
  readonly uuid: string
  readonly name: string
  readonly fromHostId: string
  readonly toHostId: string
  readonly reason: BalanceReason
  readonly state: (typeof automaticMoveStates)[number]
  /** Why the move failed. Otherwise empty. */
  readonly message: string
  readonly beganAtMs: number
  /** End of the move in ms since 1970. 0: it has not ended. */
  readonly endedAtMs: number
}

/** A guest that the last check has left on its host, although its move would balance the fleet. */
export interface RefusedGuest {
  readonly uuid: string
  readonly name: string
  readonly code: string
  readonly message: string
}

/** A dry run that has failed. Its guest gets no further dry run before the pause of the settings ends. */
export interface FailedDryRun {
  readonly atMs: number
  readonly code: string
  readonly message: string
}

/** The stored state of automatic balancing. Only the gateway that holds the lease changes it. */
export interface BalancingState {
  /** Time of the last check in ms since 1970. 0: there was none. */
  readonly checkedAtMs: number
  /** True if the last check has begun a move. */
  readonly hasMoved: boolean
  readonly refused: readonly RefusedGuest[]
  /** Newest first: all active moves, and the last ones that have ended. */
  readonly moves: readonly AutomaticMove[]
  /** Time of the last automatic move of each guest in ms since 1970, by uuid. */
  readonly movedAt: Readonly<Record<string, number>>
  /** Last failed dry run of each guest, by uuid. Absent in states that an earlier version has stored. */
  readonly failedDryRuns?: Readonly<Record<string, FailedDryRun>>
}

export const initialState: BalancingState = { checkedAtMs: 0, hasMoved: false, refused: [], moves: [], movedAt: {} }

export const waitCodes = [
  'disabled',
  'upgrade',
  'host_offline',
  'host_drained',
  'host_maintenance',
  'window',
  'moving',
  'no_move',
  'interval',
] as const

/** Reason why no move begins at present. */
export interface Wait {
  readonly code: (typeof waitCodes)[number]
  /** Host that is offline, drained or in maintenance. Otherwise empty. */
  readonly hostId: string
}
