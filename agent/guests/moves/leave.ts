import { setTimeout as delay } from 'node:timers/promises'
import { conflict } from '../../../shared/errors.js'
import type { StepContext } from '../../operations/types.js'
import type { MoveInput } from './move-input.js'
import { changeOwnership, readDetails, readOwnership, writeDetails } from './change-ownership.js'
import type { GuestStore } from '../record/guest-store.js'

/* This file changes a guest's ownership on the source host of a move. Each function is one transaction. */

export interface LeavingDetails {
  /** True if the guest was meant to run before the move stopped it. */
  readonly isWanted: boolean
  /** Only for a live move: time in ms since 1970 at which the guest was paused. */
  readonly pausedAtMs?: number
  /** Public IPv4 addresses that the guest keeps on the target. Absent in records of older versions. */
  readonly keptIpv4s?: readonly string[]
  /** Revision of the journal up to which the target has the guest's tasks and alerts. This host then deletes them. */
  readonly historyRevision?: number
}

/** Interval in ms at which the journal is checked for the gateway's decision, in case a notification was missed. */
const lookMs = 100

type MoveContext = Pick<StepContext<Pick<MoveInput, 'generation' | 'keptIpv4s'>>, 'subject' | 'operationId' | 'input'>

/**
 * Records that the guest is being stopped for its move. From now on, this host starts the guest only if the gateway
 * decides that it stays here. `wanted` becomes `stopped`, so that an older agent version does not start the guest.
 */
export function leave(
  store: GuestStore,
  { subject: { id: uuid }, operationId: moveId, input }: MoveContext,
  paused: Pick<LeavingDetails, 'pausedAtMs'> = {},
): void {
  store.changes.transaction(() => {
    const { wanted, status } = store.get(uuid)
    if (!changeOwnership(store, uuid, { kind: 'leave', moveId, generation: input.generation }))
      return refuseOther(store, uuid, moveId)
    const { keptIpv4s = [] } = input
    writeDetails(store, uuid, { isWanted: wanted === 'running', keptIpv4s, ...paused } satisfies LeavingDetails)
    const isStopping = status === 'running' && paused.pausedAtMs === undefined
    store.update(uuid, { wanted: 'stopped', status: isStopping ? 'stopping' : status })
  })
}

/** @throws {BerthError} `guest_moving` if the guest does not take part in this move */
function refuseOther(store: GuestStore, uuid: string, moveId: string): void {
  if (readOwnership(store, uuid).moveId !== moveId)
    throw conflict(
      'guest_moving',
      'the move is outdated: the gateway has since begun a newer move, or decided which host owns the container',
    )
}

/**
 * Ends a failed or canceled move on the source host, which keeps the guest.
 * @returns true if the move had already begun to stop the guest
 * @throws {BerthError} `guest_moving` if the gateway has not decided yet which host owns the guest
 */
export function stay(store: GuestStore, uuid: string): boolean {
  return store.changes.transaction(() => {
    changeOwnership(store, uuid, { kind: 'stay' })
    const { role } = readOwnership(store, uuid)
    if (role !== 'owner')
      throw conflict('guest_moving', 'the gateway has not decided yet which host owns the container')
    const { isWanted, pausedAtMs } = readDetails(store, uuid) as Partial<LeavingDetails>
    if (isWanted === undefined) return false
    store.update(uuid, {
      status: pausedAtMs === undefined ? 'stopped' : 'running',
      wanted: isWanted ? 'running' : 'stopped',
    })
    writeDetails(store, uuid, {})
    return true
  })
}

export function readIsWanted(store: GuestStore, uuid: string): boolean {
  return (readDetails(store, uuid) as Partial<LeavingDetails>).isWanted ?? false
}

/** Returns the public IPv4 addresses that the guest keeps on the target of its move. */
export function readKept(store: GuestStore, uuid: string): readonly string[] {
  return (readDetails(store, uuid) as Partial<LeavingDetails>).keptIpv4s ?? []
}

export function noteSentHistory(store: GuestStore, uuid: string, historyRevision: number): void {
  writeDetails(store, uuid, { ...(readDetails(store, uuid) as Partial<LeavingDetails>), historyRevision })
}

/** Returns the revision of the journal up to which the target has the guest's history. Undefined: it has nothing. */
export function readSentHistory(store: GuestStore, uuid: string): number | undefined {
  return (readDetails(store, uuid) as Partial<LeavingDetails>).historyRevision
}

/** Returns the time at which a live move paused the guest. Undefined: the guest was stopped. */
export function readPausedAt(store: GuestStore, uuid: string): number | undefined {
  return (readDetails(store, uuid) as Partial<LeavingDetails>).pausedAtMs
}

/** Records that the target has the whole guest, so that the gateway can make it the owner. */
export function handOver(store: GuestStore, { subject: { id: uuid } }: MoveContext): void {
  changeOwnership(store, uuid, { kind: 'hand_over' })
}

/** Waits until the gateway chooses the owner. @throws {BerthError} `move_canceled` if this host stays the owner */
export async function awaitOwner(
  store: GuestStore,
  { subject: { id: uuid }, signal }: Pick<StepContext<unknown>, 'subject' | 'signal'>,
): Promise<void> {
  for (;;) {
    const { role } = readOwnership(store, uuid)
    if (role === 'absent') return
    if (role !== 'handed_over')
      throw conflict('move_canceled', 'the move was canceled before the target host took over the container')
    await delay(lookMs, undefined, { signal })
  }
}
