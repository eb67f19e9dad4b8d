import { BerthError, notFound } from '../../shared/errors.js'
import { isBound, maySee, type Principal } from '../access/principal.js'
import type { Fleet, GuestView, OperationView } from '../fleet/contract.js'
import { guestUuidOf } from '../fleet/operation-subject.js'
import type { Route } from './route.js'

/*
 * The one place where a caller bound to some guests is held to them. Others' guests do not exist for it: same
 * answer, same bytes.
 */

/** @throws {BerthError} `insufficient_scope` where a route is not for bound callers */
export function refuseBound(route: Pick<Route, 'bound'>, caller: Principal): void {
  if (route.bound === 'refused' && isBound(caller))
    throw new BerthError(
      'forbidden',
      'insufficient_scope',
      'not for callers that are bound to some containers',
    )
}

export interface Subject {
  readonly guest?: GuestView
  readonly task?: OperationView
}

const none: Subject = {}

/**
 * What the path of a route names, as far as it exists for the caller.
 * @throws {BerthError} `not_found`
 */
export function getSubject(
  fleet: Pick<Fleet, 'view' | 'findOperation'>,
  route: Pick<Route, 'bound'>,
  { caller, params }: { caller: Principal; params: Record<string, unknown> },
): Subject | Promise<Subject> {
  if (route.bound === 'guest') return { guest: getGuest(fleet, caller, String(params['id'])) }
  if (route.bound === 'task') return getTask(fleet, caller, String(params['task_id']))
  return none
}

function getGuest({ view }: Pick<Fleet, 'view'>, caller: Principal, ref: string): GuestView {
  const found = view.findGuest(ref)
  if (found === undefined || !maySee(caller, found.guest.uuid)) throw notFound('container')
  return found
}

/** Also one that is too old for the list. */
async function getTask(fleet: Pick<Fleet, 'findOperation'>, caller: Principal, id: string): Promise<Subject> {
  const task = await fleet.findOperation(id)
  if (task === undefined || !maySee(caller, guestUuidOf(task.operation))) throw notFound('task')
  return { task }
}

/** Whose a port or address is, and how much others have left over, is nothing for who sees only some guests. */
const untold: Readonly<Record<string, string>> = {
  port_conflict: 'this choice of host ports is not available',
  address_in_use: 'this choice of addresses is not available',
  resource_exhausted: 'there is not enough left of what is asked for',
}

/** A handler's failure as its caller may hear of it; the code stays. */
export function toldTo(caller: Principal, error: unknown): unknown {
  if (!isBound(caller) || !(error instanceof BerthError)) return error
  const message = untold[error.code]
  if (message === undefined) return error
  // Without its cause, which would be in the audit log.
  return new BerthError(
    error.kind,
    error.code,
    message,
    error.field === undefined ? {} : { field: error.field },
  )
}
