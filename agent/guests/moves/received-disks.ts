import { conflict } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'
import { planSpaceLimit } from '../snapshots/plan-snapshot-space.js'
import { readDetails, writeDetails } from './change-ownership.js'

/*
 * The target host's journal of received snapshots, all of which are complete. A read-only subvolume may be incomplete:
 * btrfs-receive(8) also makes it read-only if its stream ends too early between two commands.
 */

const gib = 1024 ** 3
/** A btrfs stream may be longer than its data, because it also describes each file. */
const streamOverhead = { factor: 1.25, bytes: gib }
/** Each round sends at most 4/5 of the previous one, so all rounds send at most 5 times the first round. */
const diskFactor = 5
/** Maximum number of snapshots that the rounds of a move send. Rounds before a restart of the move count, too. */
const maxRounds = 100

/** Length in bytes of the stream of each complete snapshot, by the snapshot's id. */
export type ReceivedDisks = Readonly<Record<string, number>>

export function readReceived(store: GuestStore, uuid: string): ReceivedDisks {
  return (readDetails(store, uuid) as { received?: ReceivedDisks }).received ?? {}
}

/** Records that a snapshot is complete and durable. */
export function noteReceived(store: GuestStore, uuid: string, { id, bytes }: { id: string; bytes: number }): void {
  store.changes.transaction(() => {
    const received = { ...readReceived(store, uuid), [id]: bytes }
    writeDetails(store, uuid, { ...(readDetails(store, uuid) as object), received })
  })
}

/** Forgets a snapshot that is about to be received again. */
export function forgetReceived(store: GuestStore, uuid: string, id: string): void {
  store.changes.transaction(() => {
    const { [id]: _forgotten, ...received } = readReceived(store, uuid)
    writeDetails(store, uuid, { ...(readDetails(store, uuid) as object), received })
  })
}

export function sumReceived(received: ReceivedDisks): number {
  return Object.values(received).reduce((sum, bytes) => sum + bytes, 0)
}

/**
 * Returns the maximum length of the next stream, so that a hostile host cannot fill the pool.
 * @param received snapshots that the target has
 * @throws {BerthError} `bad_stream` if the move has too many snapshots already
 */
export function planStreamBytes(record: Pick<GuestRecord, 'spec' | 'snapshotSpace'>, received: ReceivedDisks): number {
  if (Object.keys(received).length >= limits.snapshots.max + maxRounds)
    throw conflict('bad_stream', 'the other host sent too many snapshots')
  const diskBytes = record.spec.limits.diskGb * gib
  const left = lengthOf(diskFactor * diskBytes + planSpaceLimit(record)) - sumReceived(received)
  return Math.max(0, Math.min(lengthOf(diskBytes), left))
}

function lengthOf(dataBytes: number): number {
  return dataBytes * streamOverhead.factor + streamOverhead.bytes
}
