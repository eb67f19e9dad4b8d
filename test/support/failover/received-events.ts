import type { ReceivedMessage } from '../gateway/webhook-receiver.js'
import type { Findings } from './findings.js'

export interface EventCounts {
  readonly events: number
  /** Number of messages that arrived again with the same id, which the documentation permits. */
  readonly repeated: number
  /** Number of events that arrived several times with different ids. */
  readonly duplicated: number
  /** Number of notices of omitted events. */
  readonly dropped: number
  /** Number of acknowledged creations for which neither `task.done` nor `task.failed` arrived. */
  readonly missing: number
}

/** Counts events. Each task and each guest has at most one event of a type. */
export function countEvents(
  messages: readonly ReceivedMessage[],
  taskIds: readonly string[],
  findings: Findings,
): EventCounts {
  const ids = new Map<string, Set<string>>()
  for (const { body } of messages) {
    const subject = subjectOf(body)
    ids.set(subject, (ids.get(subject) ?? new Set()).add(body.id))
  }
  const different = new Set(messages.map(({ body }) => body.id)).size
  const duplicated = [...ids].filter(([subject, own]) => own.size > 1 && !subject.startsWith('events.dropped'))
  for (const [subject, own] of duplicated) findings.duplicated.push(`${subject}: ${[...own].join(', ')}`)
  const ended = (id: string): boolean => ids.has(`task.done ${id}`) || ids.has(`task.failed ${id}`)
  return {
    events: different,
    repeated: messages.length - different,
    duplicated: duplicated.length,
    dropped: messages.filter(({ body }) => body.type === 'events.dropped').length,
    missing: taskIds.filter((id) => !ended(id)).length,
  }
}

function subjectOf({ type, container_uuid, data }: ReceivedMessage['body']): string {
  return `${type} ${type.startsWith('task.') ? String(data['task_id']) : container_uuid}`
}
