import type { Task } from '../api/types.ts'
import { hosts } from '../hosts/hosts.svelte.ts'
import { texts } from '../i18n/text.svelte.ts'

/** What a task does, as `create`. */
export function actionText(action: string): string {
  return texts.find(`task.${action}`, action)
}

/** The step a task is at. */
export function stageText(stage: string): string {
  return texts.find(`stage.${stage}`, stage)
}

/** What it failed with: in English as the host tells it, else by the code. */
export function taskError({ error, error_code: code }: Task): string {
  return texts.language === 'en' ? error : texts.find(`error.${code}`, error)
}

/** What a task is about: a guest, an image, or the host. */
export function taskSubject({ container_name: name, image_id: image, host_id: host }: Task): string {
  return name || image || hosts.nameOf(host)
}
