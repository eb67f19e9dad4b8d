import { untrack } from 'svelte'
import { push } from 'svelte-spa-router'
import type { Task } from '../api/types.ts'
import { FailedTasks } from '../guests/failed-tasks.ts'
import { tasks } from '../guests/guests.svelte.ts'
import { actionText, taskError, taskSubject } from '../guests/task-texts.ts'
import { t } from '../i18n/text.svelte.ts'
import { session } from '../session/session.svelte.ts'
import { notices } from '../ui/notices.svelte.ts'

/** Shows a notice when a task of the user fails, on every page. Call it during the initialization of a component. */
export function showFailedTasks(): void {
  const failed = new FailedTasks()
  $effect(() => {
    const { rows } = tasks
    if (rows) untrack(() => failed.take(rows, session.data?.username ?? '').forEach(show))
  })
}

function show(task: Task): void {
  const text = t('tasks.failedNotice', { action: actionText(task.action), subject: taskSubject(task) })
  const action = { label: t('tasks.show'), onClick: () => void push('/tasks') }
  void notices.show((toast) => toast.error(text, { description: taskError(task), duration: 10_000, action }))
}
