import { t, type Key } from '../../i18n/text.svelte.ts'
import type { ImageState } from './image-groups.ts'

const keys = {
  ready: 'images.ready',
  disabled: 'status.disabled',
  downloading: 'images.isDownloading',
  failed: 'status.task_failed',
  absent: 'images.absent',
  unsupported: 'images.unsupported',
} as const satisfies Record<ImageState, Key>

/** Styles of badges. */
export const stateTones: Readonly<Record<ImageState, string>> = {
  ready: 'good',
  disabled: 'off',
  downloading: 'busy',
  failed: 'bad',
  absent: 'off',
  unsupported: 'warn',
}

export function stateText(state: ImageState): string {
  return t(keys[state])
}
