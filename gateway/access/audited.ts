import { BerthError } from '../../shared/errors.js'
import { nobody } from './principal.js'
import type { AuditLog, AuditStart } from './contract.js'

export interface AuditedResult<T> {
  readonly value: T
  readonly target: string
  /** For people; contains no secrets. */
  readonly detail: string
}

type Start = Pick<AuditStart, 'action' | 'address' | 'requestId' | 'target'> & Partial<Pick<AuditStart, 'caller'>>

/**
 * Executes an action between the two halves of its audit entry, for actions outside of a route's dispatch.
 * @throws {BerthError} `store_unavailable` before the action, and what `act` throws
 */
export async function auditedBy<T>(log: AuditLog, start: Start, act: () => Promise<AuditedResult<T>>): Promise<T> {
  const { action, address, requestId, target, caller = nobody } = start
  const entry = await log.begin({ action, address, requestId, target, caller })
  try {
    const done = await act()
    // Written later if the store is down now: the action is not undone.
    await log.finish(entry, { success: true, target: done.target, detail: done.detail }).catch(() => undefined)
    return done.value
  } catch (error) {
    const detail = error instanceof BerthError ? error.code : 'internal_error'
    await log.finish(entry, { success: false, target, detail }).catch(() => undefined)
    throw error
  }
}
