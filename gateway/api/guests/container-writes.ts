import { Type, type Static } from 'typebox'
import { BerthError, invalidField } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Operation, SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { Fleet, FleetView, GuestCreation } from '../../fleet/contract.js'
import { CreateBodySchema, createExample, type CreateBody } from './create-body.js'
import { statusOf } from '../../fleet/guest-status.js'
import { operationStatusOf } from '../../fleet/lists/operation-table.js'
import { GuestStatusSchema } from './guest-row.js'
import { getNamedHost } from '../hosts/host-choice.js'
import { checkIfMatch } from '../../http/if-match.js'
import { planCreate } from './plan-create.js'
import { route, type Answer, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { QueuedSchema } from '../tasks/task-row.js'
import { ContainerPathSchema } from './containers.js'

const CreatedSchema = Type.Object(
  {
    task_id: Type.String(),
    id: Type.Integer(),
    uuid: Type.String(),
    name: Type.String(),
    status: GuestStatusSchema,
    action: Type.Literal('create'),
    ssh_port: Type.Integer(),
    ssh_password: Type.String({ description: 'In clear, only here; empty in `key` mode.' }),
  },
  { title: 'CreatedContainer' },
)

type Order = SubmitOperationRequest['order']
type Action = 'start' | 'stop' | 'restart' | 'delete'
type ActionContext = RequestContext<{ id: string }, unknown, ActionBody> & Subjects['guest']

const ActionBodySchema = Type.Object({
  force: Type.Optional(Type.Boolean({ description: 'Without a graceful shutdown, as pulling the plug.' })),
})
type ActionBody = Static<typeof ActionBodySchema>

interface ActionDefinition {
  readonly action: Action
  readonly method: 'POST' | 'DELETE'
  readonly scope: string
  readonly summary: string
  /** Takes `force`. */
  readonly forceable?: boolean
  readonly order: (fields: { readonly uuid: string; readonly force: boolean }) => Order
}

const actions: readonly ActionDefinition[] = [
  {
    action: 'start',
    method: 'POST',
    scope: 'container:power',
    summary: 'Queues a start; a running container stays as it is and the task is done',
    order: (fields) => ({ $case: 'start', value: fields }),
  },
  {
    action: 'stop',
    method: 'POST',
    scope: 'container:power',
    summary: 'Queues a stop; a stopped container stays as it is and the task is done',
    forceable: true,
    order: (fields) => ({ $case: 'stop', value: fields }),
  },
  {
    action: 'restart',
    method: 'POST',
    scope: 'container:power',
    summary: 'Queues a restart; a stopped container is started',
    forceable: true,
    order: (fields) => ({ $case: 'restart', value: fields }),
  },
  {
    action: 'delete',
    method: 'DELETE',
    scope: 'container:delete',
    summary: 'Queues the deletion of a container and all it holds',
    order: (fields) => ({ $case: 'delete', value: fields }),
  },
]

interface Parts {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

export function containerWriteRoutes({ fleet, time }: Parts): Route[] {
  return [
    route({
      method: 'POST',
      path: '/containers',
      name: 'createContainer',
      scope: 'container:create',
      bound: 'refused',
      audit: 'container.create',
      tag: 'Containers',
      summary: 'Queues the creation of a container',
      body: CreateBodySchema,
      example: createExample,
      data: CreatedSchema,
      statuses: [202],
      errors: [
        ...['name_conflict', 'port_conflict', 'address_in_use', 'resource_exhausted', 'unsupported'],
        ...['host_offline', 'agent_timeout'],
      ],
      handle: (context) => createContainer({ fleet, time }, context),
    }),
    ...actions.map((definition) => actionRoute(fleet, definition)),
  ]
}

function actionRoute(fleet: Fleet, definition: ActionDefinition): Route {
  return route({
    method: definition.method,
    path: `/containers/{id}/${definition.action}`,
    name: `${definition.action}Container`,
    scope: definition.scope,
    bound: 'guest',
    audit: `container.${definition.action}`,
    tag: 'Containers',
    summary: definition.summary,
    params: ContainerPathSchema,
    ...(definition.forceable
      ? { body: ActionBodySchema, bodyOptional: true, example: { force: false } }
      : {}),
    data: QueuedSchema,
    conditional: true,
    statuses: [202],
    errors: ['invalid_state', 'policy_blocked', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: (context) => queueAction(fleet, definition, context),
  })
}

async function queueAction(
  fleet: Fleet,
  { action, order: orderOf }: ActionDefinition,
  context: ActionContext,
): Promise<Answer<Static<typeof QueuedSchema>>> {
  const { hostId, guest } = context.guest
  context.audit({ detail: `id ${guest.id}, task ${context.operationId}` })
  await checkIfMatch(fleet, guest.uuid, context)
  const { operation, revision } = await fleet.agent(hostId).operations.submitOperation({
    operationId: context.operationId,
    requestedBy: context.caller.user,
    order: orderOf({ uuid: guest.uuid, force: context.body?.force ?? false }),
  })
  await fleet.reached(hostId, revision)
  const status = operation ? queuedStatusOf(operation) : 'pending'
  const data = { task_id: context.operationId, container_name: guest.name, status, action }
  return { status: 202, message: `${action} queued`, data }
}

/** A task that an agent has begun at once was queued all the same. */
function queuedStatusOf(operation: Operation): Static<typeof QueuedSchema>['status'] {
  const status = operationStatusOf(operation)
  return status === 'running' ? 'pending' : status
}

async function createContainer(
  { fleet, time }: Parts,
  context: RequestContext<unknown, unknown, CreateBody>,
): Promise<Answer<Static<typeof CreatedSchema>>> {
  const { body, caller, operationId } = context
  const { name, spec: planned } = planCreate(body, time)
  // Its time is over: it is made, and blocked like one whose time ends later.
  const isOver = planned.expiresAtMs !== 0 && planned.expiresAtMs <= Date.now()
  const spec = { ...planned, start: planned.start && !isOver }
  if (body.host_id !== undefined && body.host_id !== '') getNamedHost(fleet.view, body.host_id)
  checkTemplate(fleet.view, spec.templateId)
  const hostId = body.host_id ? { hostId: body.host_id } : {}
  const creation = await fleet.createGuest({ operationId, name, spec, requestedBy: caller.user, ...hostId })
  await fleet.reached(creation.hostId, creation.response.revision)
  const data = createdRow(creation, operationId)
  const detail = `id ${data.id}, host ${creation.hostId}, task ${operationId}`
  context.audit({ target: name, detail, containerUuid: data.uuid })
  return { status: 202, message: 'creation queued', data }
}

/** While no host has told of any template, the fleet's own answer says more. */
function checkTemplate(view: FleetView, id: string): void {
  const known = [...view.templates()].map(({ template }) => template.id)
  if (known.length > 0 && !known.includes(id))
    throw invalidField('template_id', 'template_id: no such template')
}

function createdRow({ hostId, response }: GuestCreation, operationId: string): Static<typeof CreatedSchema> {
  const { guest, sshPassword } = response
  if (guest === undefined)
    throw new BerthError('internal', 'agent_error', 'the agent answered without the container')
  return {
    task_id: operationId,
    id: guest.id,
    uuid: guest.uuid,
    name: guest.name,
    status: statusOf({ hostId, guest, online: true }),
    action: 'create',
    ssh_port: guest.sshPort,
    ssh_password: sshPassword,
  }
}
