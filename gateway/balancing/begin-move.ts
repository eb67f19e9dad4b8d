import { BerthError, toBerthError } from '../../shared/errors.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import type { AuditLog } from '../access/contract.js'
import { systemActor } from '../access/shown-actor.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import type { AutomaticMove } from './balancing-record.js'

interface MoveToBegin {
  readonly move: AutomaticMove
  readonly guest: GuestView
  /** Absent: the audit log has an entry of an earlier attempt. */
  readonly audit: AuditLog | undefined
}

/**
 * Begins an automatic move like `POST /containers/{id}/migrate`, and writes the same audit entry. A repeated call with
 * the same task continues the same move.
 */
export async function beginMove(fleet: Fleet, { move, guest, audit }: MoveToBegin): Promise<void> {
  const { taskId: operationId, toHostId } = move
  const how = { toHostId, bandwidthMbps: 0, offline: false, requestedBy: systemActor }
  const entry = await audit?.begin({
    action: 'container.migrate',
    caller: { ref: systemActor, user: systemActor },
    address: '',
    requestId: operationId,
    target: move.name,
  })
  const finish = async (success: boolean, detail: string): Promise<void> => {
    const outcome = { success, target: move.name, detail, containerUuid: move.uuid }
    // If the store is down, the outcome is written later.
    if (entry) await audit?.finish(entry, outcome).catch(() => undefined)
  }
  try {
    await fleet.relocation.moves.begin({ operationId, guest, ...how })
    await finish(true, `id ${guest.guest.id}, task ${operationId}, to ${toHostId}, automatic, ${move.reason}`)
  } catch (error) {
    await finish(false, error instanceof BerthError ? error.code : 'internal_error')
    throw error
  }
}

/** Returns why a move could not begin. undefined: it is not known whether it has begun, or a later attempt can succeed. */
export function describeFailure(error: unknown): string | undefined {
  const { code, message } = toBerthError(error, 'the move could not be started: see the log of the gateway')
  const temporary = ['store_unavailable', 'lease_lost', 'host_offline', 'agent_timeout']
  return error instanceof UnansweredError || temporary.includes(code) ? undefined : message
}
