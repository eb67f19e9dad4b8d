import { conflict, toBerthError } from '../../../shared/errors.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record.js'
import { forgetDone, isDone, noteDone } from './done.js'

/** Whom a setting is for. */
export interface Target {
  readonly uuid: string
  /** Refused where the guest has another; 0: whatever it has. */
  readonly ifRevision: number
  /** Carried out once, whatever comes of the answer; absent or empty: as often as it is called. */
  readonly operationId?: string
}

/** What a setting needs beside what its own `prepare` and `apply` do. */
export type ChangeContext = Pick<GuestContext, 'store' | 'turns' | 'log' | 'now'>

export interface Change {
  /** What the transaction needs of the host, read before it. */
  readonly prepare?: (record: GuestRecord) => Promise<void>
  /** In one transaction of the journal. @returns how to take it back, in another one */
  readonly write: (record: GuestRecord) => () => void
  /** Makes the host what the guest's record says; safe to repeat. */
  readonly apply?: (record: GuestRecord) => Promise<void>
  /** It is in force, or taken back, or was refused. */
  readonly ended?: () => void
}

/**
 * A setting: journaled, then in force on the host, then answered. Where the host refuses, the journal goes back
 * and the old state is in force again. A crash in between leaves the new state journaled, and the comparison with
 * the host makes it true.
 * @returns the guest as it is now
 * @throws {BerthError} `not_found`, `precondition_failed`, `invalid_state`, and what `change` throws
 */
export function changeGuest(context: ChangeContext, target: Target, change: Change): Promise<GuestRecord> {
  const { db } = context.store.changes
  return context.turns.run(target.uuid, async () => {
    try {
      const isRepeated = isDone(db, target.operationId ?? '')
      return await (isRepeated ? repeat(context, target, change) : carryOut(context, target, change))
    } finally {
      change.ended?.()
    }
  })
}

/** It may have been answered by nobody, since it was not in force yet. */
async function repeat({ store }: ChangeContext, { uuid }: Target, { apply }: Change): Promise<GuestRecord> {
  const record = store.get(uuid)
  await apply?.(record)
  return store.renew(record)
}

async function carryOut(context: ChangeContext, target: Target, change: Change): Promise<GuestRecord> {
  const { store } = context
  const before = checkChangeable(store.get(target.uuid), target)
  await change.prepare?.(before)
  const takeBack = journal(context, target, () => change.write(checkChangeable(store.renew(before), target)))
  const changed = store.get(target.uuid)
  try {
    await change.apply?.(changed)
  } catch (cause) {
    const error = toBerthError(cause, 'carry out a setting')
    error.undone = await restore(context, target.uuid, { takeBack, apply: change.apply })
    throw error
  }
  return store.renew(changed)
}

/** With its id, in one transaction. @returns how to take both back */
function journal(
  { store: { changes }, now }: ChangeContext,
  { uuid, operationId = '' }: Target,
  write: () => () => void,
): () => void {
  return changes.transaction(() => {
    noteDone(changes.db, operationId, { uuid, nowMs: now() })
    const undo = write()
    return () => {
      forgetDone(changes.db, operationId)
      undo()
    }
  })
}

function checkChangeable(record: GuestRecord, { ifRevision }: Target): GuestRecord {
  if (record.status === 'deleting') throw conflict('invalid_state', 'the container is being deleted')
  if (record.status === 'error')
    throw conflict('invalid_state', 'the container is broken, it can only be deleted')
  if (ifRevision !== 0 && record.revision !== ifRevision)
    throw conflict('precondition_failed', 'the container has changed meanwhile')
  return record
}

interface Undo {
  readonly takeBack: () => void
  readonly apply: Change['apply']
}

/**
 * What fails here is logged only: the caller is told of the first failure, and the next comparison repairs.
 * @returns whether what was before is in force
 */
async function restore(
  { store, log }: ChangeContext,
  uuid: string,
  { takeBack, apply }: Undo,
): Promise<boolean> {
  try {
    store.changes.transaction(takeBack)
    const record = store.find(uuid)
    if (record && record.status !== 'deleting') await apply?.(record)
    return true
  } catch (err) {
    log.error({ err, guest: uuid }, 'take back a setting')
    return false
  }
}
