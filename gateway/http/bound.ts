import { BerthError, notFound } from '../../shared/errors.js'
import { uuidPattern } from '../../shared/guest-rules.js'
import { isBound, mayFind, maySee, type Principal } from '../access/principal.js'
import { coversScope } from '../access/scopes.js'
import type { Fleet, GuestView, HostView, OperationView } from '../fleet/contract.js'
import { guestUuidOf } from '../fleet/operation-subject.js'
import type { Route } from './route.js'
import { refuseBlocked } from './sub-user.js'

/* Restricts callers that may access only some guests. They get `not_found` for all other guests. */

/** @throws {BerthError} `insufficient_scope` if the route refuses callers that are restricted to some guests */
export function refuseBound(route: Pick<Route, 'bound'>, caller: Principal): void {
  if (route.bound === 'refused' && isBound(caller))
    throw new BerthError('forbidden', 'insufficient_scope', 'not available for callers that are bound to containers')
}

/** The guest or task that the path of a request names. If the path names neither, both fields are absent. */
export interface BoundSubject {
  readonly guest?: GuestView
  readonly task?: OperationView
}

const none: BoundSubject = {}

/**
 * Finds the guest or task in the path, if the caller may see it.
 * @throws {BerthError} `not_found`, `policy_blocked`; `host_offline` if the guest exists but is not in the view, or an
 * offline host possibly has the task
 */
export function getSubject(
  fleet: Pick<Fleet, 'view' | 'findOperation' | 'findUnreported'>,
  route: Pick<Route, 'bound' | 'method' | 'audit'>,
  { caller, params }: { caller: Principal; params: Record<string, unknown> },
): BoundSubject | Promise<BoundSubject> {
  if (route.bound === 'guest') {
    const ref = String(params['id'])
    const guest = fleet.view.findGuest(ref)
    if (guest === undefined) return refuseUnreported(fleet, caller, ref)
    if (!mayFind(caller, guest)) throw notFound('container')
    refuseBlocked(route, caller, guest.guest)
    return { guest }
  }
  if (route.bound === 'task') return getTask(fleet, caller, String(params['task_id']))
  return none
}

/**
 * Throws the error for a guest that is not in the view. The code is `not_found` only if the guest does not exist,
 * because clients interpret this answer to a deletion as success.
 * @throws {BerthError} `not_found`, `host_offline`
 */
export async function refuseUnreported(
  fleet: Pick<Fleet, 'findUnreported'>,
  caller: Principal,
  ref: string,
): Promise<never> {
  const found = await fleet.findUnreported(ref)
  if (found === undefined || !maySee(caller, found.uuid)) throw notFound('container')
  throw new BerthError('unavailable', 'host_offline', `host ${found.hostName} has not reported the container yet`)
}

/** Finds a task, even if it is too old for the list of tasks. @throws {BerthError} `not_found`, `host_offline` */
async function getTask(
  fleet: Pick<Fleet, 'view' | 'findOperation'>,
  caller: Principal,
  id: string,
): Promise<BoundSubject> {
  const task = await fleet.findOperation(id)
  if (task && maySee(caller, guestUuidOf(task.operation))) return { task }
  throw missingTask(fleet.view.hosts(), id)
}

const taskId = new RegExp(uuidPattern)

/**
 * Returns the error for a task that was not found. An offline host possibly has it. The error is the same for a task
 * that the caller may not see, because callers must not learn which tasks exist.
 */
export function missingTask(hosts: readonly Pick<HostView, 'state'>[], id: string): BerthError {
  const isPossible = taskId.test(id) && hosts.some(({ state }) => state === 'offline')
  if (!isPossible) return notFound('task')
  const message = 'the task was not found, and a host that may have it is offline: try again when it is online'
  return new BerthError('unavailable', 'host_offline', message)
}

/** Messages for callers restricted to some guests, by error code. They do not reveal the ports and addresses in use. */
const untold: Readonly<Record<string, string>> = {
  port_conflict: 'these host ports are not available',
  address_in_use: 'these addresses are not available',
  resource_exhausted: 'not enough resources are available',
}

/**
 * Replaces the message of an error that the caller may not read: of a code in `untold` if the caller is restricted to
 * some guests, and about hosts if it may not read hosts.
 */
export function toldTo(caller: Principal, error: unknown): unknown {
  if (!(error instanceof BerthError)) return error
  const message = isBound(caller) ? untold[error.code] : withoutHosts(caller, error)
  if (message === undefined) return error
  // The cause is omitted, because readers of the audit log would see it.
  return new BerthError(error.kind, error.code, message, error.field === undefined ? {} : { field: error.field })
}

function withoutHosts({ scopes }: Principal, error: BerthError): string | undefined {
  return coversScope(scopes, 'host:read') ? undefined : error.messageWithoutHosts
}
