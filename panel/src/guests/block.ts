import type { Guest } from '../api/types.ts'
import type { Key } from '../i18n/text.svelte.ts'
import { session } from '../session/session.svelte.ts'

/** Returns why the API would refuse to start the guest. Administrators can start a guest that was stopped for abuse. */
export function startRefusal({ policy }: Guest): Key | undefined {
  if (policy === undefined || (policy === 'security' && session.isAdmin)) return undefined
  return policy === 'suspended' ? 'suspended.noStart' : `blocked.noStart.${policy}`
}
