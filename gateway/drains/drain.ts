import type { DrainResult } from '../fleet/host-record.js'

/** `done`: no container is left to move. `canceled`: the remaining containers stay where they are. */
export const drainStates = ['running', 'paused', 'canceled', 'done'] as const
export type DrainState = (typeof drainStates)[number]

export const drainedGuestStates = ['waiting', 'moving', 'moved', 'failed', 'skipped'] as const
export type DrainedGuestState = (typeof drainedGuestStates)[number]

/** `away`: containers leave the host. `back`: containers that have left the host return to it. */
export type DrainDirection = 'away' | 'back'

/** A container in a drain, and the result of its move. */
export interface DrainedGuest {
  readonly uuid: string
  readonly name: string
  readonly state: DrainedGuestState
  /** Id of the last move, which is also the id of its task. Empty before the first attempt. */
  readonly moveId: string
  readonly attempts: number
  /** Earliest time of the next attempt, in ms since 1970. */
  readonly retryAtMs: number
  /** Host to which the container was moved. Empty until then. */
  readonly toHostId: string
  /** Reason why the container was not moved, or why the last attempt failed. */
  readonly message: string
}

/** A stored drain: the moves of all containers away from one host, or back to it. */
export interface Drain {
  readonly id: string
  readonly hostId: string
  readonly state: DrainState
  readonly direction: DrainDirection
  /** Number of containers that move at the same time. */
  readonly parallel: number
  /** Limit of each transfer in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
  readonly guests: readonly DrainedGuest[]
  readonly startedBy: string
  readonly startedAtMs: number
  /** End of the drain in ms since 1970. 0 until the end. */
  readonly endedAtMs: number
}

export function resultOf({ id, direction, state, guests, endedAtMs }: Drain): DrainResult {
  const count = (wanted: DrainedGuestState): number => guests.filter((guest) => guest.state === wanted).length
  return {
    id,
    direction,
    state,
    moved: count('moved'),
    failed: count('failed'),
    skipped: count('skipped'),
    endedAtMs,
  }
}

/** The last drain of each host, by id of the host. */
export type DrainsByHost = Readonly<Record<string, Drain>>

export function newDrainedGuest({ uuid, name }: { readonly uuid: string; readonly name: string }): DrainedGuest {
  return { uuid, name, state: 'waiting', moveId: '', attempts: 0, retryAtMs: 0, toHostId: '', message: '' }
}

/** True while the drain may still move containers without a command of an operator. */
export function isActive(drain: Drain): boolean {
  return drain.state === 'running' || drain.state === 'paused' || isMoving(drain)
}

export function isMoving(drain: Drain): boolean {
  return drain.guests.some(({ state }) => state === 'moving')
}
