import type { Task } from '../api/types.ts'
import { hosts } from '../hosts/hosts.svelte.ts'
import { t, texts } from '../i18n/text.svelte.ts'
import { parseStage } from './parse-stage.ts'
import { session } from '../session/session.svelte.ts'

/** Names the action of a task, such as `create`. */
export function actionText(action: string): string {
  return texts.find(`task.${action}`, action)
}

/** Describes the current step of a task. @param stage step, with an optional amount: `copying: 12 MiB, 3.1 MiB/s` */
export function stageText(stage: string): string {
  const { step, amount, isUndo, isRetry } = parseStage(stage)
  const name = texts.find(`stage.${step}`, step)
  const parts = [isUndo ? t('stage.undo', { name }) : name, isRetry ? t('stage.retry') : amount]
  return parts.filter((part) => part !== '').join(' · ')
}

/** Describes the error of a task: in English with the host's message, in other languages by the code of the error. */
export function taskError({ error, error_code: code }: Pick<Task, 'error' | 'error_code'>): string {
  return texts.language === 'en' ? error : texts.find(`error.${code}`, error)
}

/** Names the caller that did something. Customers read `provider` for all callers except themselves. */
export function actorText(name: string): string {
  return name === 'provider' && !session.isAdmin ? t('tasks.provider') : name
}

export function taskSubject({ container_name: name, image_id: image, host_id: host }: Task): string {
  return name || image || hosts.nameOf(host)
}
