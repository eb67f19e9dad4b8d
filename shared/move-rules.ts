import { BerthError } from './errors.js'

/** Error for the move of a running virtual machine, which must be shut down first. Gateway and agent use this error. */
export function offlineRequired(): BerthError {
  const message = 'a running virtual machine can only move with "offline": true, which shuts it down during the move'
  return new BerthError('conflict', 'offline_required', message, { field: 'offline' })
}
