import { securityUser } from '../../../shared/abuse.js'
import type { AuditRecord } from '../../access/audit-record.js'
import type { AlertView, OperationView } from '../../fleet/contract.js'
import { operationStatusOf } from '../../fleet/lists/operation-table.js'

export const timelineKinds = ['task', 'change', 'alert', 'policy', 'restart'] as const

/** Something that happened to a container. */
export interface TimelineEntry {
  readonly atMs: number
  readonly kind: (typeof timelineKinds)[number]
  /** Of a task, an audit entry, or the type of an alert. */
  readonly action: string
  /** Of a task; `success` or `failure` of a change; the severity of an alert. */
  readonly status: string
  readonly user: string
  /** Of who asked for it; empty: not known. */
  readonly address: string
  readonly detail: string
  readonly taskId: string
}

/** What is known of one container, by source; a reader without the permission for one has none of it. */
export interface TimelineSources {
  readonly operations: readonly OperationView[]
  readonly audit: readonly AuditRecord[]
  readonly alerts: readonly AlertView[]
}

/**
 * One list, the newest first. What was ordered is there once: as its task, with the address that its audit entry has.
 */
export function planTimeline({ operations, audit, alerts }: TimelineSources, limit: number): TimelineEntry[] {
  const ordered = new Map(audit.map((record) => [taskOf(record), record]))
  const tasks = new Set(operations.map(({ operation }) => operation.id))
  const entries = [
    ...operations.map((view) => taskEntry(view, ordered.get(view.operation.id))),
    ...audit.filter((record) => !tasks.has(taskOf(record)) && !isPrelude(record)).map(changeEntry),
    ...alerts.map(alertEntry),
  ]
  return entries.sort((a, b) => b.atMs - a.atMs).slice(0, limit)
}

/** A ticket for a console that is opened next, which has an entry of its own. */
function isPrelude({ action, success }: AuditRecord): boolean {
  return action === 'console.ticket' && success
}

/** The task that an entry tells of; empty: none. See `queueOrder`. */
function taskOf({ detail }: AuditRecord): string {
  return /\btask ([\w-]{1,64})$/.exec(detail)?.[1] ?? ''
}

function taskEntry({ operation }: OperationView, ordered: AuditRecord | undefined): TimelineEntry {
  const { id, action, requestedBy, createdAtMs, error } = operation
  return {
    atMs: createdAtMs,
    kind: kindOf(action, requestedBy),
    action,
    user: requestedBy,
    taskId: id,
    status: operationStatusOf(operation),
    address: ordered?.address ?? '',
    detail: error,
  }
}

/** The agent stops what may not run any more, and starts again what ended by itself or with its host. */
function kindOf(action: string, user: string): TimelineEntry['kind'] {
  if (user === securityUser) return 'alert'
  if (user !== 'system') return 'task'
  return action === 'stop' ? 'policy' : action === 'start' ? 'restart' : 'task'
}

function changeEntry({ timeMs, action, user, address, detail, success }: AuditRecord): TimelineEntry {
  const status = success ? 'success' : 'failure'
  return { atMs: timeMs, kind: 'change', action, status, user, address, detail, taskId: '' }
}

function alertEntry({ alert }: AlertView): TimelineEntry {
  const { type, severity, detail, lastAtMs, targetIp } = alert
  return {
    atMs: lastAtMs,
    kind: 'alert',
    action: type,
    status: severity,
    user: '',
    address: targetIp,
    detail,
    taskId: '',
  }
}
