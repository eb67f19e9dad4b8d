import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { BerthError, invalidField, notFound, toBerthError } from '../../../shared/errors.js'
import { maySee } from '../../access/principal.js'
import { authorize } from '../../access/scopes.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { numeric } from '../../http/normalize.js'
import { oneOf } from '../../http/schema.js'
import { actions } from './container-writes.js'
import { CreateBodySchema, type CreateBody } from './create-body.js'
import { checkCreation, CreatedSchema, orderCreation, type CreationParts } from './creations.js'
import type { Order } from './queue-order.js'
import { planReinstall, reinstallFields, reinstallScope } from './reinstall.js'

/** Guests in one batch. */
const mostGuests = 100
/** Orders on their way at once. */
const parallel = 8

const TaskIdsSchema = Type.Array(Type.String())
const FailedSchema = Type.Object({ name: Type.String(), code: Type.String(), message: Type.String() })
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

const BatchActionSchema = Type.Object({
  action: oneOf([...actions.map(({ action }) => action), 'reinstall']),
  containers: Type.Array(Type.String({ minLength: 1, maxLength: 64, ...numeric }), {
    minItems: 1,
    maxItems: mostGuests,
    description: 'Ids, uuids or names.',
  }),
  ...Type.Partial(Type.Object(reinstallFields)).properties,
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
        ...['host_offline', 'agent_timeout'],
      ],
      handle: (context) => batchCreate(parts, context),
    }),
    route({
      method: 'POST',
      path: '/batch-action',
      name: 'actOnContainers',
      scope: 'any',
      bound: 'own',
      audit: 'container.batch_action',
      tag: 'Containers',
      summary:
        'Queues an action for several containers, with the scope of the action; all are checked before any is queued',
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
          'host_offline',
          'agent_timeout',
        ],
      ],
      handle: (context) => batchAction(parts.fleet, context),
    }),
  ]
}

type Failed = Static<typeof FailedSchema>

async function batchCreate(
  parts: CreationParts,
  context: RequestContext<unknown, unknown, BatchCreate>,
): Promise<Answer<string[]>> {
  const bodies = expand(context.body)
  const planned = bodies.map((body, index) => located(index, () => checkCreation(parts, body)))
  refuseTaken(
    parts.fleet,
    planned.map(({ name }) => name),
    context.operationId,
  )
  const { done, failed } = await each(
    planned,
    ({ name }) => name,
    (one) => {
      const operationId = partOf(context.operationId, one.name)
      return orderCreation(parts, one, { caller: context.caller, operationId })
    },
  )
  context.audit({ target: namesOf(planned), detail: `${done.length} of ${planned.length} queued` })
  const containers = done.map(({ hostId: _, ...row }) => row)
  return {
    status: 202,
    message: `${done.length} of ${planned.length} creations queued`,
    data: done.map(({ task_id }) => task_id),
    more: { containers, failed },
  }
}

/** The bodies of single creations. @throws {BerthError} `missing_field` */
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

/** What is wrong with one of many says with which. */
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

/** A batch that is repeated has taken its names itself. @throws {BerthError} `name_conflict`, `invalid_field` */
function refuseTaken({ view }: Fleet, names: readonly string[], operationId: string): void {
  const lower = names.map((name) => name.toLowerCase())
  const twice = names.find((_, index) => lower.indexOf(lower[index]!) !== index)
  if (twice !== undefined) throw invalidField('containers', `containers: ${twice} is there twice`)
  const taken = names.find(
    (name) =>
      view.findGuest(name) !== undefined && view.findOperation(partOf(operationId, name)) === undefined,
  )
  if (taken !== undefined)
    throw new BerthError('conflict', 'name_conflict', `${taken}: a container has this name`)
}

async function batchAction(
  fleet: Fleet,
  context: RequestContext<unknown, unknown, BatchAction>,
): Promise<Answer<string[]>> {
  const { action } = context.body
  const plan = planAction(fleet, context)
  const guests = [...new Set(context.body.containers.map((ref) => getGuest(fleet, context, ref)))]
  const { done, failed } = await each(
    guests,
    ({ guest }) => guest.name,
    (guest) => orderAction(fleet, plan, { guest, context }),
  )
  const detail = `${action}: ${done.length} of ${guests.length} queued`
  context.audit({ target: namesOf(guests.map(({ guest }) => guest)), detail })
  return {
    status: 202,
    message: detail,
    data: done.map(({ task_id }) => task_id),
    more: { failed, ...(action === 'reinstall' ? { containers: done } : {}) },
  }
}

/** @returns the order for a guest. @throws {BerthError} `insufficient_scope`, `missing_field`, `invalid_field` */
function planAction(
  { view }: Fleet,
  { caller, body }: RequestContext<unknown, unknown, BatchAction>,
): (uuid: string) => Order {
  const definition = actions.find(({ action }) => action === body.action)
  authorize(caller, definition?.scope ?? reinstallScope)
  if (definition) return (uuid) => definition.order({ uuid, force: body.force ?? false })
  const { template_id } = body
  if (template_id === undefined) throw missing('template_id')
  return planReinstall(view, { ...body, template_id })
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
  plan: (uuid: string) => Order,
  {
    guest: { hostId, guest },
    context,
  }: { guest: GuestView; context: RequestContext<unknown, unknown, BatchAction> },
): Promise<Static<typeof ReinstalledSchema>> {
  const operationId = partOf(context.operationId, guest.uuid)
  const { revision, sshPassword } = await fleet.agent(hostId).operations.submitOperation({
    operationId,
    requestedBy: context.caller.user,
    order: plan(guest.uuid),
  })
  await fleet.reached(hostId, revision)
  return { task_id: operationId, container_name: guest.name, ssh_password: sshPassword }
}

/**
 * Orders all, a few at once. What is refused does not keep the others.
 * @throws the first refusal where nothing was queued
 */
async function each<One, Result>(
  list: readonly One[],
  nameOf: (one: One) => string,
  order: (one: One) => Promise<Result>,
): Promise<{ done: Result[]; failed: Failed[] }> {
  const results: (Result | BerthError)[] = []
  const indexes = list.keys()
  const work = async (): Promise<void> => {
    for (const index of indexes)
      results[index] = await order(list[index]!).catch((error: unknown) => toBerthError(error, 'order'))
  }
  await Promise.all(Array.from({ length: parallel }, work))
  const failed = results.flatMap((result, index) =>
    result instanceof BerthError
      ? [{ name: nameOf(list[index]!), code: result.code, message: result.message }]
      : [],
  )
  const refusal = results.find((result) => result instanceof BerthError)
  if (refusal instanceof BerthError && failed.length === list.length) throw refusal
  return { done: results.filter((result): result is Result => !(result instanceof BerthError)), failed }
}

/** The id of one part of an operation: the same whenever the whole is repeated. A uuid (RFC 9562, version 8). */
function partOf(operationId: string, part: string): string {
  const hex = createHash('sha256').update(`${operationId}\n${part}`).digest('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}

function namesOf(list: readonly { readonly name: string }[]): string {
  const names = list.map(({ name }) => name)
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')
}
