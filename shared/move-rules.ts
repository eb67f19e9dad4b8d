import { BerthError } from './errors.js'

/** Error for a running virtual machine, which can only move while it is shut down. Gateway and agent use it. */
export function offlineRequired(): BerthError {
  const message = 'a running virtual machine can only move with "offline": true, which shuts it down during the move'
  return new BerthError('conflict', 'offline_required', message, { field: 'offline' })
}
