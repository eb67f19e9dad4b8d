import type { TimelineEntry } from '../../api/types.ts'
import { actionText } from '../../guests/task-texts.ts'
import { texts } from '../../i18n/text.svelte.ts'
import type { ChartMark } from '../../ui/Chart.svelte'

/** Text of the event; its name in the API if there is no text. */
export function entryTitle({ kind, action }: TimelineEntry): string {
  if (kind === 'policy' || kind === 'restart') return texts.find(`timeline.${kind}`, action)
  if (kind === 'alert') return texts.find(`abuse.${action}`, actionText(action))
  return kind === 'change' ? texts.find(`change.${action}`, action) : actionText(action)
}

/** Details without the id of the guest, which the page shows already. */
export function entryDetail({ detail }: TimelineEntry): string {
  return detail.replace(/^id \d+(, |$)/, '')
}

/** The status of an entry, as badges name them. */
export function entryStatus({ kind, status, task_id: task }: TimelineEntry): string {
  return kind !== 'change' && task !== '' ? `task_${status}` : status
}

/** True for entries that a chart marks: changes of a guest's limits, and faults. */
export function isMarked({ kind, action, status }: TimelineEntry): boolean {
  if (kind === 'change') return status === 'success' && action === 'container.resource_limit'
  return kind !== 'task' || marked.has(action)
}

/** The mark of an entry: entries without a request are bad. */
export function markOf({ timestamp, kind }: TimelineEntry): ChartMark {
  return { at: timestamp, bad: kind !== 'task' && kind !== 'change' }
}

const marked: ReadonlySet<string> = new Set([
  'create',
  'start',
  'stop',
  'restart',
  'reinstall',
  'snapshot-restore',
  'backup-restore',
])
