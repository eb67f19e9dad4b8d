import type { Guest } from '../api/types.ts'
import type { Key } from '../i18n/text.svelte.ts'
import { session } from '../session/session.svelte.ts'
import { serverTime } from '../ui/server-time.svelte.ts'
import { isExpiring, timeBounds } from './filter.ts'

/** Returns why the API would refuse to start the guest. Administrators can start a guest that was stopped for abuse. */
export function startRefusal({ policy }: Guest): Key | undefined {
  if (policy === undefined || (policy === 'security' && session.isAdmin)) return undefined
  return policy === 'suspended' ? 'suspended.noStart' : `blocked.noStart.${policy}`
}

/** True if a guest that is permitted to run expires within a week. */
export function expiresSoon({ policy, expires_at: expiry }: Guest): boolean {
  return policy === undefined && isExpiring(expiry, timeBounds(serverTime.nowMs, serverTime.format))
}
