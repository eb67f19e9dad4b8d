import { conflict, toBerthError } from '../../../shared/errors.js'
import { refuseDeleted } from '../deletion/plan-deletion.js'
import { refuseNotOwned } from '../moves/change-ownership.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { forgetDone, isDone, noteDone } from './done.js'

/** The guest that a setting is for, and the conditions of the change. */
export interface Target {
  readonly uuid: string
  /** The change is refused if the guest has another revision; 0 means any revision. */
  readonly ifRevision: number
  /** Id of the change. Calls with the same id change the setting only once. Each call without an id changes it. */
  readonly operationId?: string
  /** Maximum number of ports in all the guest's mappings after a mapping is added; undefined means the host's limit. */
  readonly portLimit?: number | undefined
}

/** Dependencies that all settings share. */
export type ChangeContext = Pick<GuestContext, 'store' | 'log' | 'now'>

/** Defines how one setting is prepared, stored in the journal and applied on the host. */
export interface SettingChange {
  /** True if a guest whose status is `error` accepts the change, too. */
  readonly allowsBroken?: boolean
  /** True if a guest that is marked as deleted accepts the change, too. */
  readonly allowsDeleted?: boolean
  /** Reads data from the host that the transaction needs. */
  readonly prepare?: (record: GuestRecord) => Promise<void>
  /** Writes to the journal in one transaction. @returns a function that undoes these writes in a second transaction */
  readonly write: (record: GuestRecord) => () => void
  /** Makes the host match the guest's record. Can be called repeatedly. */
  readonly apply?: (record: GuestRecord) => Promise<void>
  /** Called when the setting is in force, rolled back or refused. */
  readonly ended?: () => void
}

/**
 * Changes a setting: stores it in the journal and applies it on the host. If the host refuses, the stored change is
 * rolled back, and the old state is in force again. If the agent crashes before the change is applied, the journal has
 * the new state, and the reconciler applies it.
 * @returns the guest in its present state
 * @throws {BerthError} `not_found`, `precondition_failed`, `invalid_state`, and the errors of `change`
 */
export function changeGuest(context: ChangeContext, target: Target, change: SettingChange): Promise<GuestRecord> {
  const { db } = context.store.changes
  return context.store.mutex.run(target.uuid, async () => {
    try {
      const isRepeated = isDone(db, target.operationId ?? '')
      return await (isRepeated ? repeat(context, target, change) : carryOut(context, target, change))
    } finally {
      change.ended?.()
    }
  })
}

/** Handles a repeated request. Applies the change again, because the first call possibly did not apply it. */
async function repeat({ store }: ChangeContext, { uuid }: Target, { apply }: SettingChange): Promise<GuestRecord> {
  const record = store.get(uuid)
  await apply?.(record)
  return store.renew(record)
}

async function carryOut(context: ChangeContext, target: Target, change: SettingChange): Promise<GuestRecord> {
  const { store } = context
  const check = (record: GuestRecord): GuestRecord => checkChangeable(record, target, change)
  const before = check(store.get(target.uuid))
  await change.prepare?.(before)
  const takeBack = journal(context, target, () => change.write(check(store.renew(before))))
  const changed = store.get(target.uuid)
  try {
    await change.apply?.(changed)
  } catch (cause) {
    const error = toBerthError(cause, 'could not change a setting of the guest')
    error.undone = await restore(context, target.uuid, { takeBack, apply: change.apply })
    throw error
  }
  return store.renew(changed)
}

/** Stores the change and its id in one transaction. @returns a function that rolls the change and the id back */
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

function checkChangeable(
  record: GuestRecord,
  { ifRevision }: Target,
  { allowsBroken = false, allowsDeleted = false }: SettingChange,
): GuestRecord {
  if (record.status === 'deleting') throw conflict('invalid_state', 'the container is being deleted')
  if (record.status === 'error' && !allowsBroken)
    throw conflict('invalid_state', 'the container is broken, it can only be deleted')
  if (!allowsDeleted) refuseDeleted(record)
  refuseNotOwned(record)
  if (ifRevision !== 0 && record.revision !== ifRevision)
    throw conflict('precondition_failed', 'the container was changed in the meantime')
  return record
}

interface Undo {
  readonly takeBack: () => void
  readonly apply: SettingChange['apply']
}

/**
 * Rolls a failed setting back. Errors of the rollback are only logged, because the reconciler repairs such a guest.
 * @returns true if the state before the change is in force
 */
async function restore({ store, log }: ChangeContext, uuid: string, { takeBack, apply }: Undo): Promise<boolean> {
  try {
    store.changes.transaction(takeBack)
    const record = store.find(uuid)
    if (record && record.status !== 'deleting') await apply?.(record)
    return true
  } catch (err) {
    log.error({ err, guest: uuid }, 'could not restore the earlier value of a setting')
    return false
  }
}
