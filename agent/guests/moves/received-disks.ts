import { conflict } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'
import { planSpaceLimit } from '../snapshots/plan-snapshot-space.js'
import { readDetails, writeDetails } from './change-ownership.js'
import { findRound } from './round-ids.js'

/*
 * The target host's journal of completely received snapshots. A read-only subvolume can be incomplete, because
 * btrfs-receive(8) makes it read-only even if its stream ends too early between two commands.
 */

const gib = 1024 ** 3
/** A btrfs stream can be longer than its data, because it also describes each file. */
const streamOverhead = { factor: 1.25, bytes: gib }
/** Number of snapshots that can each have all data of the disk: the oldest one, the newest round and the next round. */
const diskFactor = 3
/** Maximum number of snapshots that the target keeps for the rounds of a move. */
const maxRounds = 10

/** Length in bytes of the stream of each complete snapshot, by the snapshot's id. */
export type ReceivedDisks = Readonly<Record<string, number>>

export function readReceived(store: GuestStore, uuid: string): ReceivedDisks {
  return (readDetails(store, uuid) as { received?: ReceivedDisks }).received ?? {}
}

/** A snapshot that was received completely. */
export interface ReceivedDisk {
  readonly id: string
  /** Length of its stream. */
  readonly bytes: number
}

/**
 * Records that a snapshot is complete and durable. Also deletes the records of rounds that this snapshot replaces. The
 * caller deletes the snapshots of these rounds.
 */
export function noteReceived(store: GuestStore, uuid: string, moveId: string, disk: ReceivedDisk): void {
  store.changes.transaction(() => {
    const mostBytes = streamLengthOf(store.get(uuid).spec.limits.diskGb * gib)
    const received = planReceived(readReceived(store, uuid), { moveId, disk, mostBytes })
    writeDetails(store, uuid, { ...(readDetails(store, uuid) as object), received })
  })
}

/**
 * Adds a received snapshot. The newest round replaces the earlier rounds of its move, because the next round is sent as
 * the difference to the newest one. The newest round contains all data of the earlier rounds. Its length is therefore
 * the sum of all lengths, but at most that of a whole disk.
 */
export function planReceived(
  received: ReceivedDisks,
  { moveId, disk: { id, bytes }, mostBytes }: { moveId: string; disk: ReceivedDisk; mostBytes: number },
): ReceivedDisks {
  if (findRound(moveId, id) === undefined) return { ...received, [id]: bytes }
  const isReplaced = ([one]: [string, number]): boolean => one === id || findRound(moveId, one) !== undefined
  const entries = Object.entries(received)
  const replaced = Object.fromEntries(entries.filter(isReplaced))
  const others = Object.fromEntries(entries.filter((entry) => !isReplaced(entry)))
  return { ...others, [id]: Math.min(mostBytes, bytes + sumReceived(replaced)) }
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
  const left = streamLengthOf(diskFactor * diskBytes + planSpaceLimit(record)) - sumReceived(received)
  return Math.max(0, Math.min(streamLengthOf(diskBytes), left))
}

/** Returns the maximum length in bytes of a stream with this much data. */
export function streamLengthOf(dataBytes: number): number {
  return dataBytes * streamOverhead.factor + streamOverhead.bytes
}
