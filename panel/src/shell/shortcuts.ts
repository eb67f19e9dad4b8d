import type { Key } from '../i18n/text.svelte.ts'

/** Pages that the user opens with two keys: `g` and then `key`. */
export const places: readonly { readonly key: string; readonly path: string; readonly label: Key }[] = [
  { key: 'o', path: '/', label: 'nav.overview' },
  { key: 'c', path: '/containers', label: 'nav.guests' },
  { key: 'h', path: '/hosts', label: 'nav.hosts' },
  { key: 'i', path: '/images', label: 'nav.images' },
  { key: 't', path: '/tasks', label: 'nav.tasks' },
  { key: 's', path: '/settings', label: 'nav.settings' },
]

/** True if a key press belongs to the browser, or to an input, a terminal, a dialog or a menu. */
export function isTaken({ target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  const field = 'input, textarea, select, [contenteditable], .terminal, [role=dialog], [role=menu]'
  return ctrlKey || metaKey || altKey || (target instanceof HTMLElement && target.closest(field) !== null)
}
