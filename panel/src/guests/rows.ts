import type { Guest, Task } from '../api/types.ts'
import type { Change } from '../live/changes.ts'

/** Maximum number of tasks in the list. */
export const keptTasks = 50

export function byUuid<Row extends { readonly uuid: string }>(rows: readonly Row[]): ReadonlyMap<string, Row> {
  return new Map(rows.map((row) => [row.uuid, row]))
}

/** Applies changes to the guest list, which is ordered by id. */
export function applyToGuests(rows: readonly Guest[], changes: readonly Change[]): readonly Guest[] {
  return applied(rows, changes, {
    keyOf: ({ uuid }) => uuid,
    // Events do not contain the owners of a guest, because all users who see the guest receive the same event.
    merge: (before, after) => ({ ...after, ...(before.owners && { owners: before.owners }) }),
    isGone: (type, { status }) => type === 'guest.removed' || status === 'deleted',
    add: (all, added) => [...all, ...added].sort((a, b) => a.id - b.id),
  })
}

/** Applies changes to the list of the newest tasks, newest first. */
export function applyToTasks(rows: readonly Task[], changes: readonly Change[]): readonly Task[] {
  return applied(rows, changes, {
    keyOf: ({ task_id }) => task_id,
    isGone: (type) => type === 'task.removed',
    add: (all, added) => [...added.reverse(), ...all].slice(0, keptTasks),
  })
}

interface How<Row> {
  readonly keyOf: (row: Row) => string
  readonly isGone: (type: string, row: Row) => boolean
  /** Returns the new row for an event. Fields that the event (`after`) omits come from the previous row (`before`). */
  readonly merge?: (before: Row, after: Row) => Row
  readonly add: (rows: readonly Row[], added: Row[]) => readonly Row[]
}

function applied<Row>(
  rows: readonly Row[],
  changes: readonly Change[],
  { keyOf, isGone, add, merge = (_before, after) => after }: How<Row>,
): readonly Row[] {
  if (changes.length === 0) return rows
  // The new rows by id. Undefined: the row was removed.
  const after = new Map<string, Row | undefined>()
  for (const { type, data } of changes) {
    const row = data as Row
    after.delete(keyOf(row))
    after.set(keyOf(row), isGone(type, row) ? undefined : row)
  }
  const kept: Row[] = []
  for (const row of rows) {
    const key = keyOf(row)
    const now = after.has(key) ? after.get(key) : row
    if (now !== undefined) kept.push(now === row ? row : merge(row, now))
    after.delete(key)
  }
  const added = [...after.values()].filter((row) => row !== undefined)
  return added.length === 0 ? kept : add(kept, added)
}
