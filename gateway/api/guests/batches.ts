import { Type, type Static } from 'typebox'
import { BerthError, conflict, invalidField, notFound } from '../../../shared/errors.js'
import { isBound, maySee, type Principal } from '../../access/principal.js'
import { authorize } from '../../access/scopes.js'
import type { Fleet, GuestView, HeldRoom } from '../../fleet/contract.js'
import { guestUuidOf } from '../../fleet/operation-subject.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { containerRef } from '../../http/normalize.js'
import { oneOf } from '../../http/schema.js'
import { FailedSchema, orderEach, partOf } from './batch-parts.js'
import { actions } from './container-writes.js'
import { CreateBodySchema, type CreateBody } from './create-body.js'
import { refuseDoubleHostPorts } from './plan-mappings.js'
import {
  checkCreation,
  CreatedSchema,
  orderCreation,
  type CreationParts,
  type PlannedCreation,
} from './creations.js'
import type { Order } from './queue-order.js'
import { planReinstall, reinstallFields, reinstallScope } from './reinstall.js'
import { changeSetting } from './settings.js'
import {
  planSuspension,
  planUnsuspension,
  refuseBoundCaller,
  suspendScope,
  suspensionFields,
} from './suspension.js'

/** Most guests of a batch. */
const mostGuests = 100

const TaskIdsSchema = Type.Array(Type.String())
const failedSchema = Type.Array(FailedSchema, { description: 'What was refused after all were checked.' })

const BatchCreateSchema = Type.Object({
  containers: Type.Optional(Type.Array(CreateBodySchema, { minItems: 1, maxItems: mostGuests })),
  count: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: mostGuests,
      description: 'Instead of `containers`: so many of the container described, as NAME-1, NAME-2, …',
    }),
  ),
  ...Type.Partial(CreateBodySchema).properties,
})
type BatchCreate = Static<typeof BatchCreateSchema>

/** Changes of a setting: in force when answered, without tasks. */
const settingActions = ['suspend', 'unsuspend'] as const

const BatchActionSchema = Type.Object({
  action: oneOf([...actions.map(({ action }) => action), 'reinstall', ...settingActions]),
  containers: Type.Array(Type.String({ minLength: 1, maxLength: 64, ...containerRef }), {
    minItems: 1,
    maxItems: mostGuests,
    description: 'Ids, uuids or names.',
  }),
  ...Type.Partial(Type.Object(reinstallFields)).properties,
  ...Type.Partial(Type.Object(suspensionFields)).properties,
  force: Type.Optional(
    Type.Boolean({ description: 'Stop, restart and reinstall without a graceful shutdown.' }),
  ),
})
type BatchAction = Static<typeof BatchActionSchema>

const ReinstalledSchema = Type.Object({
  task_id: Type.String(),
  container_name: Type.String(),
  ssh_password: Type.String(),
})

export function batchRoutes(parts: CreationParts): Route[] {
  return [
    route({
      method: 'POST',
      path: '/batch-create',
      name: 'createContainers',
      scope: 'container:create',
      bound: 'refused',
      audit: 'container.batch_create',
      tag: 'Containers',
      summary: 'Queues the creation of several containers; all are checked before any is queued',
      body: BatchCreateSchema,
      example: { containers: [{ name: 'web1', template_id: 'debian-12' }] },
      data: TaskIdsSchema,
      more: { containers: Type.Array(CreatedSchema), failed: failedSchema },
      statuses: [202],
      errors: [
        ...['name_conflict', 'port_conflict', 'address_in_use', 'resource_exhausted', 'unsupported'],
        'image_disabled',
        ...['host_offline', 'agent_timeout'],
      ],
      handle: (context) => batchCreate(parts, context),
    }),
    route({
      method: 'POST',
      path: '/batch-action',
      name: 'actOnContainers',
      subUser: 'refused',
      scope: 'any',
      bound: 'own',
      audit: 'container.batch_action',
      tag: 'Containers',
      summary:
        'Queues an action for several containers, with the scope of the action; all are checked before any is queued. ' +
        '`suspend` (with `reason`) and `unsuspend` are done when answered, without tasks',
      body: BatchActionSchema,
      example: { action: 'stop', containers: ['web1', 'web2'] },
      data: TaskIdsSchema,
      more: {
        failed: failedSchema,
        containers: Type.Optional(
          Type.Array(ReinstalledSchema, {
            description: 'Of a reinstall: the new logins, as of a single one.',
          }),
        ),
      },
      statuses: [202],
      errors: [
        ...[
          'insufficient_scope',
          'not_found',
          'invalid_state',
          'policy_blocked',
          'resource_exhausted',
          'image_disabled',
          'unsupported',
          'host_offline',
          'agent_timeout',
        ],
      ],
      handle: (context) => batchAction(parts, context),
    }),
  ]
}

async function batchCreate(
  parts: CreationParts,
  context: RequestContext<unknown, unknown, BatchCreate>,
): Promise<Answer<string[]>> {
  const bodies = expand(context.body)
  const planned = bodies.map((body, index) => located(index, () => checkCreation(parts, body)))
  refuseSharedPlaces(parts.fleet, planned)
  await refuseTaken(
    parts.fleet,
    planned.map(({ name }) => name),
    context.operationId,
  )
  const room = await holdRoom(parts.fleet, planned, context)
  const named = planned.map((one) => ({ name: one.name, one }))
  const { done, failed, unsettled } = await orderEach(context, named, (one) => {
    const operationId = partOf(context.operationId, one.name)
    return orderCreation(parts, one, { caller: context.caller, operationId })
  }).finally(() => room.release())
  const detail = `${done.length} of ${planned.length} queued, ids ${done.map(({ id }) => id).join(' ')}`
  context.audit({ target: namesOf(planned), detail })
  const containers = done.map(({ hostId: _, ...row }) => row)
  return {
    status: 202,
    message: `${done.length} of ${planned.length} creations queued`,
    data: done.map(({ task_id }) => task_id),
    more: { containers, failed },
    unsettled,
  }
}

/**
 * A place for each, beside the others, before the first is ordered; one that was ordered before has its own.
 * @throws {BerthError} `resource_exhausted`, `host_offline` and what else no host can do, of the first that has none
 */
async function holdRoom(
  fleet: Fleet,
  planned: readonly PlannedCreation[],
  { operationId, caller }: RequestContext<unknown, unknown, unknown>,
): Promise<HeldRoom> {
  const requests = planned.map((one) => ({
    ...{ ...one, operationId: partOf(operationId, one.name), requestedBy: caller.user },
  }))
  const isOrdered = await Promise.all(requests.map((one) => fleet.isCreation(one.operationId)))
  const room = fleet.holdRoom()
  try {
    for (const [index, request] of requests.entries())
      if (!isOrdered[index]) located(index, () => room.hold(request))
    return room
  } catch (error) {
    room.release()
    throw error
  }
}

/** Expands the body to those of single creations. @throws {BerthError} `missing_field` */
function expand({ containers, count, ...body }: BatchCreate): CreateBody[] {
  if (containers !== undefined) return containers
  const { name, template_id } = body
  if (name === undefined || template_id === undefined || count === undefined)
    throw missing(name === undefined ? 'containers' : template_id === undefined ? 'template_id' : 'count')
  return Array.from({ length: count }, (_, index) => ({ ...body, template_id, name: `${name}-${index + 1}` }))
}

function missing(field: string): BerthError {
  return new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
}

/** Adds to an error which of the many it is about. */
function located<T>(index: number, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof BerthError)) throw error
    const at = `containers[${index}]`
    const field = error.field === undefined ? at : `${at}.${error.field}`
    throw new BerthError(error.kind, error.code, `${at}: ${error.message}`, { field, cause: error })
  }
}

/** Refuses addresses and ports that several would share. @throws {BerthError} `invalid_field` */
function refuseSharedPlaces({ view }: Fleet, planned: readonly PlannedCreation[]): void {
  const addresses = planned.flatMap(({ spec }) => [...spec.publicIpv4s, ...spec.ipv6Addresses])
  const twice = addresses.find((address, index) => addresses.indexOf(address) !== index)
  if (twice !== undefined) throw invalidField('containers', `containers: ${twice} is asked for twice`)
  const oneHost = view.countHosts().total === 1
  planned.forEach(({ spec, hostId }, index) => {
    const others = planned.slice(0, index).filter((one) => oneHost || (hostId && one.hostId === hostId))
    const mappings = [...others.map((one) => one.spec), spec].flatMap(({ portMappings }) => portMappings)
    if (others.length > 0) refuseDoubleHostPorts(mappings)
  })
}

/**
 * Refuses names in use, except those that this batch has taken before it was repeated. @throws {BerthError}
 * `name_conflict`, `invalid_field`
 */
async function refuseTaken(fleet: Fleet, names: readonly string[], operationId: string): Promise<void> {
  const lower = names.map((name) => name.toLowerCase())
  const twice = names.find((_, index) => lower.indexOf(lower[index]!) !== index)
  if (twice !== undefined) throw invalidField('containers', `containers: ${twice} is there twice`)
  for (const name of names.filter((name) => fleet.view.findGuest(name) !== undefined))
    if (!(await fleet.isCreation(partOf(operationId, name))))
      throw conflict('name_conflict', `${name}: a container has this name`)
}

async function batchAction(
  parts: CreationParts,
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

interface Acted {
  /** Absent for a setting. */
  readonly task_id?: string
  readonly container_name: string
  readonly ssh_password: string
}

/** Does the action for one guest. */
type Act = (guest: GuestView, operationId: string) => Promise<Acted>
type BatchContext = RequestContext<unknown, unknown, BatchAction>

/** @throws {BerthError} `insufficient_scope`, `missing_field`, `invalid_field` */
function planAction({ fleet, time }: CreationParts, context: BatchContext): Act {
  const { caller, body } = context
  if (isSettingAction(body.action)) return planSuspensions({ fleet, time }, context)
  const plan = planOrder(fleet, context)
  return (view, operationId) => orderAction(fleet, plan(view.guest.uuid), { view, operationId, caller })
}

function isSettingAction(action: string): boolean {
  return settingActions.some((known) => known === action)
}

function planSuspensions({ fleet, time }: Pick<CreationParts, 'fleet' | 'time'>, context: BatchContext): Act {
  const { caller, body } = context
  authorize(caller, suspendScope)
  refuseBoundCaller(caller)
  const { reason } = body
  if (body.action === 'suspend' && reason === undefined) throw missing('reason')
  const change =
    reason !== undefined && body.action === 'suspend'
      ? planSuspension({ ...body, reason }, time)
      : planUnsuspension()
  const audit = (): void => undefined // the batch has one entry
  return async (guest, operationId) => {
    await changeSetting(fleet, { headers: {}, audit, operationId, guest }, change)
    return { container_name: guest.guest.name, ssh_password: '' }
  }
}

/** @returns the order for a guest. @throws {BerthError} `insufficient_scope`, `missing_field`, `invalid_field` */
function planOrder({ view }: Fleet, { caller, body }: BatchContext): (uuid: string) => Order {
  const definition = actions.find(({ action }) => action === body.action)
  authorize(caller, definition?.scope ?? reinstallScope)
  if (definition)
    return (uuid) => definition.order({ uuid, force: body.force ?? false, liftBlock: !isBound(caller) })
  const { template_id } = body
  if (template_id === undefined) throw missing('template_id')
  return planReinstall(view, { ...body, template_id }, caller)
}

function failedText(failed: readonly { name: string; code: string }[]): string {
  return failed.length === 0
    ? ''
    : `, failed ${failed.map(({ name, code }) => `${name}: ${code}`).join(', ')}`
}

/**
 * A guest and its first name in the request, from which its operation's id is made, so that a repeat finds it even when
 * the guest is gone.
 */
interface Target {
  readonly view: GuestView
  readonly ref: string
}

/**
 * Finds the guests. In a repeated batch a guest may be gone, perhaps by the batch: then its operation is the answer.
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
      const view = getGuest(fleet, context, ref)
      if (!guests.has(view.guest.uuid)) guests.set(view.guest.uuid, { view, ref })
    }
  }
  return { guests: [...guests.values()], earlier: [...earlier] }
}

/** Finds the operation of an earlier attempt; asks hosts only if there may be one that is not shown any more. */
async function findEarlier(
  fleet: Fleet,
  { operationId, headers, caller }: RequestContext<unknown, unknown, BatchAction>,
  ref: string,
): Promise<string | undefined> {
  if (headers['idempotency-key'] === undefined || fleet.view.findGuest(ref)) return undefined
  const found = await fleet.findOperation(partOf(operationId, ref))
  return found && maySee(caller, guestUuidOf(found.operation)) ? found.operation.id : undefined
}

function getGuest(
  { view }: Fleet,
  { caller }: RequestContext<unknown, unknown, unknown>,
  ref: string,
): GuestView {
  const found = view.findGuest(ref)
  if (found === undefined || !maySee(caller, found.guest.uuid)) throw notFound('container')
  return found
}

async function orderAction(
  fleet: Fleet,
  order: Order,
  { view, operationId, caller }: { view: GuestView; operationId: string; caller: Principal },
): Promise<Static<typeof ReinstalledSchema>> {
  const { hostId, guest } = view
  const { revision, sshPassword } = await fleet
    .agent(hostId)
    .operations.submitOperation({ operationId, requestedBy: caller.user, order })
  await fleet.reached(hostId, revision)
  return { task_id: operationId, container_name: guest.name, ssh_password: sshPassword }
}

function namesOf(list: readonly { readonly name: string }[]): string {
  const names = list.map(({ name }) => name)
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')
}
