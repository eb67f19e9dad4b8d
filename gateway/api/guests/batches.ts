import { Type, type Static } from 'typebox'
import { BerthError, conflict, inOtherField, invalidField } from '../../../shared/errors.js'
import type { Fleet } from '../../fleet/contract.js'
import type { HeldRoom } from '../../fleet/creation-contract.js'
import { initialSettingErrors } from './create/initial-settings.js'
import { placementErrors } from './placement-row.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { batchActionRoute } from './batch-action.js'
import type { UndoDeleteParts } from './undo-delete.js'
import { failedSchema, missing, mostGuests, namesOf, orderEach, partOf, TaskIdsSchema } from './batch-parts.js'
import { CreateBodySchema, type CreateBody } from './create/create-body.js'
import { refuseDoubleHostPorts } from './create/plan-mappings.js'
import {
  checkCreation,
  CreatedSchema,
  orderCreation,
  type CreationParts,
  type PlannedCreation,
} from './create/creations.js'

const BatchCreateSchema = Type.Object({
  containers: Type.Optional(
    Type.Array(CreateBodySchema, {
      minItems: 1,
      maxItems: mostGuests,
      description:
        'Containers to create, each with the fields of `POST /containers`. Use either this field or `count`.',
    }),
  ),
  count: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: mostGuests,
      description:
        'Number of containers to create with the same settings, instead of `containers`. Their names are `NAME-1`, `NAME-2`, …, where `NAME` is the field `name`.',
    }),
  ),
  ...Type.Partial(CreateBodySchema).properties,
})
type BatchCreate = Static<typeof BatchCreateSchema>

export function batchRoutes(parts: CreationParts & UndoDeleteParts): Route[] {
  return [
    route({
      method: 'POST',
      path: '/batch-create',
      name: 'createContainers',
      scope: 'container:create',
      bound: 'refused',
      audit: 'container.batch_create',
      tag: 'Containers',
      summary: 'Queues the creation of several containers. All of them are checked before any creation is queued',
      body: BatchCreateSchema,
      example: { containers: [{ name: 'web1', template_id: 'debian-12' }] },
      data: TaskIdsSchema,
      more: { containers: Type.Array(CreatedSchema), failed: failedSchema },
      statuses: [202],
      errors: [
        'name_conflict',
        'port_conflict',
        'address_in_use',
        'resource_exhausted',
        ...placementErrors,
        ...initialSettingErrors,
        'unsupported',
        'image_disabled',
        'host_offline',
        'agent_timeout',
      ],
      handle: (context) => batchCreate(parts, context),
    }),
    batchActionRoute(parts),
  ]
}

async function batchCreate(
  parts: CreationParts,
  context: RequestContext<unknown, unknown, BatchCreate>,
): Promise<Answer<string[]>> {
  const bodies = expand(context.body)
  const planned: PlannedCreation[] = []
  for (const [index, body] of bodies.entries())
    planned.push(await checkCreation(parts, body, context.caller).catch((error: unknown) => throwAt(index, error)))
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
  }).finally(() => void room.release())
  const queued = `${done.length} of ${planned.length} queued, ids ${done.map(({ id }) => id).join(' ')}`
  context.audit({ target: namesOf(planned), detail: [queued, ...summariesOf(planned)].join(', ') })
  const containers = done.map(({ hostId: _, ...row }) => row)
  return {
    status: 202,
    message: `${done.length} of ${planned.length} creations queued`,
    data: done.map(({ task_id }) => task_id),
    more: { containers, failed },
    unsettled,
  }
}

/** Returns the distinct texts about the owner, the firewall and the backups of the new guests, for the audit log. */
const summariesOf = (planned: readonly PlannedCreation[]): string[] => [
  ...new Set(planned.map(({ summary }) => summary).filter(Boolean)),
]

/**
 * Reserves resources on hosts for all guests before the first one is created. Guests that an earlier attempt of this
 * request has created are skipped.
 * @throws {BerthError} for the first guest that no host can run: `resource_exhausted`, `host_offline` and other codes
 */
async function holdRoom(
  fleet: Fleet,
  planned: readonly PlannedCreation[],
  { operationId, caller }: RequestContext<unknown, unknown, unknown>,
): Promise<HeldRoom> {
  const requests = planned.map((one) => ({
    ...one,
    operationId: partOf(operationId, one.name),
    requestedBy: caller.user,
  }))
  const isOrdered = await Promise.all(requests.map((one) => fleet.isCreation(one.operationId)))
  const unordered = requests.filter((_, index) => !isOrdered[index])
  return fleet.holdRoom(unordered, (at, place) => located(requests.indexOf(unordered[at]!), place))
}

/** Converts the body of a batch to the bodies of single creations. @throws {BerthError} `missing_field` */
function expand({ containers, count, ...body }: BatchCreate): CreateBody[] {
  if (containers !== undefined) return containers
  const { name, template_id } = body
  if (name === undefined || template_id === undefined || count === undefined)
    throw missing(name === undefined ? 'containers' : template_id === undefined ? 'template_id' : 'count')
  return Array.from({ length: count }, (_, index) => ({ ...body, template_id, name: `${name}-${index + 1}` }))
}

/** Adds the index of the creation to an error that `check` throws. */
function located<T>(index: number, check: () => T): T {
  try {
    return check()
  } catch (error) {
    return throwAt(index, error)
  }
}

function throwAt(index: number, error: unknown): never {
  if (!(error instanceof BerthError)) throw error
  const at = `containers[${index}]`
  const field = error.field === undefined ? at : `${at}.${error.field}`
  throw inOtherField(error, field, `${at}: ${error.message}`)
}

/** Rejects an address or host port that several of the containers request. @throws {BerthError} `invalid_field` */
function refuseSharedPlaces({ view }: Fleet, planned: readonly PlannedCreation[]): void {
  const addresses = planned.flatMap(({ spec }) => [...spec.publicIpv4s, ...spec.ipv6Addresses])
  const twice = addresses.find((address, index) => addresses.indexOf(address) !== index)
  if (twice !== undefined) throw invalidField('containers', `containers: ${twice} is requested more than once`)
  const oneHost = view.countHosts().total === 1
  planned.forEach(({ spec, hostId }, index) => {
    const others = planned.slice(0, index).filter((one) => oneHost || (hostId && one.hostId === hostId))
    const mappings = [...others.map((one) => one.spec), spec].flatMap(({ portMappings }) => portMappings)
    if (others.length > 0) refuseDoubleHostPorts(mappings)
  })
}

/**
 * Rejects names that other guests have. Guests that an earlier attempt of this request created do not count.
 * @throws {BerthError} `name_conflict`, `invalid_field`
 */
async function refuseTaken(fleet: Fleet, names: readonly string[], operationId: string): Promise<void> {
  const lower = names.map((name) => name.toLowerCase())
  const twice = names.find((_, index) => lower.indexOf(lower[index]!) !== index)
  if (twice !== undefined) throw invalidField('containers', `containers: ${twice} appears more than once`)
  for (const name of names.filter((name) => fleet.view.findGuest(name) !== undefined))
    if (!(await fleet.isCreation(partOf(operationId, name))))
      throw conflict('name_conflict', `containers: a container named ${name} already exists`)
}
