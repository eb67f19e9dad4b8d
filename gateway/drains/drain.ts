import type { DrainResult } from '../fleet/host-record.js'

/** `done`: no container is left to move, stop or start. `canceled`: the remaining containers stay as they are. */
export const drainStates = ['running', 'paused', 'canceled', 'done'] as const
export type DrainState = (typeof drainStates)[number]

/** `move`: containers move to other hosts. `stop`: containers stay on the host and are shut down. */
export const drainModes = ['move', 'stop'] as const
/** `evacuate`: the host has failed, and its containers are restored from backups on other hosts. */
export type DrainMode = (typeof drainModes)[number] | 'evacuate'

/** `active`: the container is being moved, stopped or started. `done`: this action has succeeded. */
export const drainedGuestStates = ['waiting', 'active', 'done', 'failed', 'skipped'] as const
export type DrainedGuestState = (typeof drainedGuestStates)[number]

/** `away`: containers leave the host or are stopped. `back`: these containers return or are started again. */
export type DrainDirection = 'away' | 'back'

/** A container in a drain, and the result of its move, stop or start. */
export interface DrainedGuest {
  readonly uuid: string
  readonly name: string
  readonly state: DrainedGuestState
  /** Task of the last move, stop or start. Empty: no task was needed, for example for a stopped container. */
  readonly taskId: string
  readonly attempts: number
  /** Earliest time of the next attempt, in ms since 1970. */
  readonly retryAtMs: number
  /** Hosts to which earlier attempts failed. The next attempt prefers other hosts. */
  readonly refusedBy: readonly string[]
  /** Host to which the container moves or was moved. Empty until the target is chosen. */
  readonly toHostId: string
  /** Reason why nothing was done, or why the last attempt failed. */
  readonly message: string
}

/** A stored drain of one host. Its containers leave the host or are stopped. Later, they can return or be started. */
export interface Drain {
  readonly id: string
  readonly hostId: string
  readonly state: DrainState
  readonly mode: DrainMode
  readonly direction: DrainDirection
  /** Maximum number of containers that are moved, stopped or started at the same time. */
  readonly parallel: number
  /** Limit of each transfer in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
  /** Time in ms since 1970 after which no further container is moved or stopped. 0: never. */
  readonly deadlineMs: number
  readonly guests: readonly DrainedGuest[]
  readonly startedBy: string
  readonly startedAtMs: number
  /** End of the drain in ms since 1970. 0: the drain has not ended. */
  readonly endedAtMs: number
}

export function resultOf({ id, mode, direction, state, guests, endedAtMs }: Drain): DrainResult {
  const count = (wanted: DrainedGuestState): number => guests.filter((guest) => guest.state === wanted).length
  return {
    id,
    mode,
    direction,
    state,
    done: count('done'),
    failed: count('failed'),
    skipped: count('skipped'),
    endedAtMs,
  }
}

/** The last drain of each host, by id of the host. */
export type DrainsByHost = Readonly<Record<string, Drain>>

export function newDrainedGuest({ uuid, name }: { readonly uuid: string; readonly name: string }): DrainedGuest {
  return {
    uuid,
    name,
    state: 'waiting',
    taskId: '',
    attempts: 0,
    retryAtMs: 0,
    refusedBy: [],
    toHostId: '',
    message: '',
  }
}

/** True while the drain can still change containers without a command of an operator. */
export function isActive(drain: Drain): boolean {
  return drain.state === 'running' || drain.state === 'paused' || hasActive(drain)
}

export function hasActive(drain: Drain): boolean {
  return drain.guests.some(({ state }) => state === 'active')
}
