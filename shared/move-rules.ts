import { BerthError } from './errors.js'

/**
 * Error for a running virtual machine that can only move while it is shut down. Gateway and agents use it.
 * @param reasons why it cannot move while it runs
 */
export function offlineRequired(reasons: readonly string[]): BerthError {
  const message = `the virtual machine cannot move while it runs: ${reasons.join('; ')}. With "offline": true, it is shut down during the move`
  return new BerthError('conflict', 'offline_required', message, { field: 'offline' })
}

/** Range of the field `max_downtime_ms`, in ms. */
export const downtimeMs = { min: 10, max: 60_000, usual: 500 } as const
