import { Type, type Static } from 'typebox'
import { notFound } from '../../../shared/errors.js'
import { isBound, mayFind, maySee, type Principal } from '../../access/principal.js'
import { authorize } from '../../access/scopes.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { guestUuidOf } from '../../fleet/operation-subject.js'
import { refuseUnreported } from '../../http/bound.js'
import { containerRef } from '../../http/normalize.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { failedSchema, missing, mostGuests, namesOf, orderEach, partOf, TaskIdsSchema } from './batch-parts.js'
import { actions, nowField } from './container-writes.js'
import type { CreationParts } from './create/creations.js'
import type { OrderCase } from './queue-order.js'
import { checkNow, retentionOf, type UndoDeleteParts } from './undo-delete.js'
import { planReinstall, reinstallFields, reinstallScope } from './reinstall.js'
import { changeSetting } from './guest-settings.js'
import { planSuspension, planUnsuspension, refuseBoundCaller, suspendScope, suspensionFields } from './suspension.js'

/** Actions that change a setting. They take effect immediately and create no tasks. */
const settingActions = ['suspend', 'unsuspend'] as const

const BatchActionSchema = Type.Object({
  action: oneOf(
    [...actions.map(({ action }) => action), 'reinstall', ...settingActions],
    'Action to carry out on each container.',
  ),
  containers: Type.Array(Type.String({ minLength: 1, maxLength: 64, ...containerRef }), {
    minItems: 1,
    maxItems: mostGuests,
    description: 'Ids, UUIDs or names of the containers on which the action is carried out.',
  }),
  ...Type.Partial(Type.Object(reinstallFields)).properties,
  ...Type.Partial(Type.Object(suspensionFields)).properties,
  now: nowField,
  force: Type.Optional(
    Type.Boolean({ description: '`true`: stop, restart or reinstall without a graceful shutdown.' }),
  ),
})
type BatchAction = Static<typeof BatchActionSchema>

const ReinstalledSchema = Type.Object({
  task_id: Type.String(),
  container_name: Type.String(),
  ssh_password: Type.String(),
})

type Parts = Pick<CreationParts, 'time'> & UndoDeleteParts

export function batchActionRoute(parts: Parts): Route {
  return route({
    method: 'POST',
    path: '/batch-action',
    name: 'actOnContainers',
    subUser: 'refused',
    scope: 'any',
    bound: 'own',
    audit: 'container.batch_action',
    tag: 'Containers',
    summary:
      'Queues an action for several containers. The caller needs the scope of the action. All containers are checked before any action is queued. `suspend` (which requires `reason`) and `unsuspend` create no tasks: they are complete when the answer is sent',
    body: BatchActionSchema,
    example: { action: 'stop', containers: ['web1', 'web2'] },
    data: TaskIdsSchema,
    more: {
      failed: failedSchema,
      containers: Type.Optional(
        Type.Array(ReinstalledSchema, {
          description: 'New logins of the reinstalled containers. Only returned for `reinstall`.',
        }),
      ),
    },
    statuses: [202],
    errors: [
      'insufficient_scope',
      'not_found',
      'invalid_state',
      'delete_protected',
      'agent_outdated',
      'policy_blocked',
      'resource_exhausted',
      'image_disabled',
      'unsupported',
      'host_offline',
      'agent_timeout',
    ],
    handle: (context) => batchAction(parts, context),
  })
}

async function batchAction(
  parts: Parts,
  context: RequestContext<unknown, unknown, BatchAction>,
): Promise<Answer<string[]>> {
  const { fleet } = parts
  const { action } = context.body
  const plan = planAction(parts, context)
  const { guests, earlier } = await findTargets(fleet, context)
  const named = guests.map((target) => ({ name: target.view.guest.name, one: target }))
  const { done, failed, unsettled } = await orderEach(context, named, (target) =>
    plan(target.view, partOf(context.operationId, target.ref)),
  )
  const total = guests.length + earlier.length
  const tasks = done.flatMap(({ task_id }) => task_id ?? [])
  const outcome = isSettingAction(action) ? 'done' : 'queued'
  const message = `${action}: ${done.length + earlier.length} of ${total} ${outcome}`
  const detail = `${message}, ids ${guests.map(({ view }) => view.guest.id).join(' ')}${failedText(failed)}`
  context.audit({ target: namesOf(named), detail })
  return {
    status: 202,
    message,
    data: [...earlier, ...tasks],
    more: { failed, ...(action === 'reinstall' ? { containers: done } : {}) },
    unsettled,
  }
}

interface ActionResult {
  /** Id of the task. Absent if the action changes a setting without a task. */
  readonly task_id?: string
  readonly container_name: string
  readonly ssh_password: string
}

type Act = (guest: GuestView, operationId: string) => Promise<ActionResult>
type BatchContext = RequestContext<unknown, unknown, BatchAction>

/** @throws {BerthError} `insufficient_scope`, `missing_field`, `invalid_field` */
function planAction(parts: Parts, context: BatchContext): Act {
  const { fleet } = parts
  const { caller, body } = context
  if (isSettingAction(body.action)) return planSuspensions(parts, context)
  const plan = planOrder(parts, context)
  return (view, operationId) => orderAction(fleet, plan(view), { view, operationId, caller })
}

function isSettingAction(action: string): boolean {
  return settingActions.some((known) => known === action)
}

function planSuspensions({ fleet, time }: Parts, context: BatchContext): Act {
  const { caller, body } = context
  authorize(caller, suspendScope)
  refuseBoundCaller(caller)
  const { reason } = body
  if (body.action === 'suspend' && reason === undefined) throw missing('reason')
  const change =
    reason !== undefined && body.action === 'suspend' ? planSuspension({ ...body, reason }, time) : planUnsuspension()
  const audit = (): void => undefined // the batch has one audit entry for all guests
  return async (guest, operationId) => {
    await changeSetting(fleet, { headers: {}, audit, operationId, guest }, change)
    return { container_name: guest.guest.name, ssh_password: '' }
  }
}

/**
 * @returns a function that creates the operation for a guest
 * @throws {BerthError} `insufficient_scope`, `missing_field`, `invalid_field`
 */
function planOrder(parts: Parts, { caller, body }: BatchContext): (guest: GuestView) => OrderCase {
  const definition = actions.find(({ action }) => action === body.action)
  authorize(caller, definition?.scope ?? reinstallScope)
  const isNow = checkNow(caller, body.now)
  if (definition)
    return (view) =>
      definition.order({
        uuid: view.guest.uuid,
        force: body.force ?? false,
        liftBlock: !isBound(caller),
        retainMs: body.action === 'delete' ? retentionOf(parts, view, isNow) : 0,
      })
  const { template_id } = body
  if (template_id === undefined) throw missing('template_id')
  const plan = planReinstall(parts.fleet.view, { ...body, template_id }, caller)
  return ({ guest }) => plan(guest.uuid)
}

function failedText(failed: readonly { name: string; code: string }[]): string {
  return failed.length === 0 ? '' : `, failed ${failed.map(({ name, code }) => `${name}: ${code}`).join(', ')}`
}

/**
 * A guest, and the text by which the request selects it (`ref`: id, uuid or name). The id of the guest's operation is
 * derived from `ref`. A repeated request therefore finds the operation even after the guest was deleted.
 */
interface Target {
  readonly view: GuestView
  readonly ref: string
}

/**
 * Finds the guests that the request selects (`guests`). If an earlier attempt of the request has already deleted some
 * of these guests, finds the operations of this attempt (`earlier`).
 */
async function findTargets(
  fleet: Fleet,
  context: RequestContext<unknown, unknown, BatchAction>,
): Promise<{ guests: Target[]; earlier: string[] }> {
  const guests = new Map<string, Target>()
  const earlier = new Set<string>()
  for (const ref of context.body.containers) {
    const known = await findEarlier(fleet, context, ref)
    if (known !== undefined) earlier.add(known)
    else {
      const view = await getGuest(fleet, context, ref)
      if (!guests.has(view.guest.uuid)) guests.set(view.guest.uuid, { view, ref })
    }
  }
  return { guests: [...guests.values()], earlier: [...earlier] }
}

/** If the guest no longer exists, finds the operation that an earlier attempt of this request created for it. */
async function findEarlier(
  fleet: Fleet,
  { operationId, headers, caller }: RequestContext<unknown, unknown, BatchAction>,
  ref: string,
): Promise<string | undefined> {
  if (headers['idempotency-key'] === undefined || fleet.view.findGuest(ref)) return undefined
  const found = await fleet.findOperation(partOf(operationId, ref))
  return found && maySee(caller, guestUuidOf(found.operation)) ? found.operation.id : undefined
}

async function getGuest(
  fleet: Fleet,
  { caller }: RequestContext<unknown, unknown, unknown>,
  ref: string,
): Promise<GuestView> {
  const found = fleet.view.findGuest(ref)
  if (found === undefined) return refuseUnreported(fleet, caller, ref)
  if (!mayFind(caller, found)) throw notFound('container')
  return found
}

async function orderAction(
  fleet: Fleet,
  order: OrderCase,
  { view, operationId, caller }: { view: GuestView; operationId: string; caller: Principal },
): Promise<Static<typeof ReinstalledSchema>> {
  const { hostId, guest } = view
  const { revision, sshPassword } = await fleet
    .agent(hostId)
    .operations.submitOperation({ operationId, requestedBy: caller.user, order })
  await fleet.reached(hostId, revision)
  return { task_id: operationId, container_name: guest.name, ssh_password: sshPassword }
}
