import { securityUser } from '../../../shared/abuse.js'
import type { AuditRecord } from '../../access/audit-record.js'
import type { AlertView, OperationView } from '../../fleet/contract.js'
import { operationStatusOf } from '../../fleet/lists/operation-table.js'

export const timelineKinds = ['task', 'change', 'alert', 'policy', 'restart'] as const

/** An event in the history of a container. */
export interface TimelineEntry {
  readonly atMs: number
  readonly kind: (typeof timelineKinds)[number]
  /** Action of the task or audit entry, or type of the alert. */
  readonly action: string
  /** Status of a task, `success` or `failure` of a change, or severity of an alert. */
  readonly status: string
  readonly user: string
  /** Address of the caller. Empty: not known. */
  readonly address: string
  readonly detail: string
  readonly taskId: string
}

/** Events of a container by their source. A source is empty if the reader may not see it. */
export interface TimelineSources {
  readonly operations: readonly OperationView[]
  readonly audit: readonly AuditRecord[]
  readonly alerts: readonly AlertView[]
}

/**
 * Merges all sources, newest first. If an audit entry belongs to a task in the list, shows only the task, with the
 * client address from the entry.
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

/** True for an entry about a console's ticket. The timeline shows only the entry about the opening of the console. */
function isPrelude({ action, success }: AuditRecord): boolean {
  return action === 'console.ticket' && success
}

/** Returns the id of the task that `queueOrder` has written into an audit entry. Empty: the entry names no task. */
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

/** Returns the kind of a task. Tasks of the user `system` stop guests by policy, or start ended guests again. */
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
