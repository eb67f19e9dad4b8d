import type { TimelineEntry } from '../../api/types.ts'
import { actionText } from '../../guests/task-texts.ts'
import { texts } from '../../i18n/text.svelte.ts'
import type { ChartMark } from '../../ui/Chart.svelte'

/** Returns the translated name of an event, or its name in the API if there is no translation. */
export function entryTitle({ kind, action }: TimelineEntry): string {
  if (kind === 'policy' || kind === 'restart') return texts.find(`timeline.${kind}`, action)
  if (kind === 'alert') return texts.find(`abuse.${action}`, actionText(action))
  if (action === 'console.close') return texts.find('timeline.console', action)
  return kind === 'change' ? texts.find(`change.${action}`, action) : actionText(action)
}

/** Returns the details without the guest's id, which the page already shows. */
export function entryDetail({ detail }: TimelineEntry): string {
  return detail.replace(/^id \d+(, |$)/, '')
}

/** Returns the status of a timeline entry as the name of a badge. */
export function entryStatus({ kind, status, task_id: task }: TimelineEntry): string {
  return kind !== 'change' && task !== '' ? `task_${status}` : status
}

/** True for entries that charts mark: tasks of certain kinds, changes of the guest's limits, and faults. */
export function isMarked({ kind, action, status }: TimelineEntry): boolean {
  if (kind === 'change') return status === 'success' && action === 'container.resource_limit'
  return kind !== 'task' || marked.has(action)
}

/** Makes an event's mark for a chart. An event that is neither a task nor a change is a fault, so its mark is `bad`. */
export function markOf({ timestamp, kind }: TimelineEntry): ChartMark {
  return { at: timestamp, bad: kind !== 'task' && kind !== 'change' }
}

const marked: ReadonlySet<string> = new Set([
  'create',
  'create-from-backup',
  'start',
  'stop',
  'restart',
  'reinstall',
  'snapshot-restore',
  'backup-restore',
])
