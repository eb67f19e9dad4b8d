import { Type, type Static } from 'typebox'
import { isBound } from '../../access/principal.js'
import { bootRoute } from './boot.js'
import { CreateBodySchema, createExample, type CreateBody } from './create/create-body.js'
import { checkCreation, CreatedSchema, orderCreation, type CreationParts } from './create/creations.js'
import { initialSettingErrors } from './create/initial-settings.js'
import { placementErrors } from './placement-row.js'
import { route, type Answer, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { QueuedSchema } from '../tasks/task-row.js'
import { ContainerPathSchema } from './containers.js'
import { migrateRoute } from './migrate.js'
import { queueOrder, type OrderCase } from './queue-order.js'
import { reinstallRoute } from './reinstall.js'
import { checkNow, retentionOf, type UndoDeleteParts } from './undo-delete.js'
import { resetPasswordRoute } from './reset-password.js'

export type Action = 'start' | 'stop' | 'restart' | 'delete'
type ActionContext = RequestContext<{ id: string }, DeleteQuery, ActionBody> & Subjects['guest']

const ActionBodySchema = Type.Object({
  force: Type.Optional(
    Type.Boolean({ description: '`true`: stop the container without a graceful shutdown, like a power cut.' }),
  ),
})
type ActionBody = Static<typeof ActionBodySchema>

export const nowField = Type.Optional(
  Type.Boolean({ description: '`true`: remove the container at once, although `undo_delete_hours` is set.' }),
)
const DeleteQuerySchema = Type.Object({ now: nowField })
type DeleteQuery = Static<typeof DeleteQuerySchema>

export interface OrderFields {
  readonly uuid: string
  readonly force: boolean
  /** True if the action ends a suspension for abuse. Callers that are restricted to some guests may not end it. */
  readonly liftBlock: boolean
  /** Time in ms for which a deleted guest is retained. 0: it is removed immediately. Only used by deletions. */
  readonly retainMs: number
}

export interface ActionDefinition {
  readonly action: Action
  readonly method: 'POST' | 'DELETE'
  readonly scope: string
  readonly summary: string
  /** True if requests may contain `force`. */
  readonly forceable?: boolean
  readonly order: (fields: OrderFields) => OrderCase
}

export const actions: readonly ActionDefinition[] = [
  {
    action: 'start',
    method: 'POST',
    scope: 'container:power',
    summary: 'Queues a start. If the container is already running, the task succeeds without a change',
    order: (fields) => ({ $case: 'start', value: fields }),
  },
  {
    action: 'stop',
    method: 'POST',
    scope: 'container:power',
    summary: 'Queues a stop. If the container is already stopped, the task succeeds without a change',
    forceable: true,
    order: (fields) => ({ $case: 'stop', value: fields }),
  },
  {
    action: 'restart',
    method: 'POST',
    scope: 'container:power',
    summary: 'Queues a restart. A stopped container is started',
    forceable: true,
    order: (fields) => ({ $case: 'restart', value: fields }),
  },
  {
    action: 'delete',
    method: 'DELETE',
    scope: 'container:delete',
    summary:
      'Queues the deletion of a container and of all its data. If `undo_delete_hours` is set, the container is only stopped, gets the status `deleted`, and is removed after that time. `POST /containers/{id}/undelete` undoes the deletion until then. With `now=true`, the container is removed at once, also if it already has the status `deleted`. Without it, a second deletion answers 409 `invalid_state` and changes nothing',
    order: (fields) => ({ $case: 'delete', value: fields }),
  },
]

export function containerWriteRoutes({ settings, ...creation }: CreationParts & UndoDeleteParts): Route[] {
  const { fleet } = creation
  return [
    route({
      method: 'POST',
      path: '/containers',
      name: 'createContainer',
      scope: 'container:create',
      bound: 'refused',
      audit: 'container.create',
      tag: 'Containers',
      summary:
        'Queues the creation of a container. A failed creation is undone: requests for the container are then answered with 404, and the task contains the reason',
      body: CreateBodySchema,
      example: createExample,
      data: CreatedSchema,
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
      handle: (context) => createContainer(creation, context),
    }),
    ...actions.map((definition) => actionRoute({ fleet, settings }, definition)),
    reinstallRoute(fleet),
    resetPasswordRoute(fleet),
    bootRoute(fleet),
    migrateRoute(fleet),
  ]
}

function actionRoute(parts: UndoDeleteParts, definition: ActionDefinition): Route {
  return route({
    method: definition.method,
    path: `/containers/{id}/${definition.action}`,
    name: `${definition.action}Container`,
    scope: definition.scope,
    bound: 'guest',
    subUser: definition.action === 'delete' ? 'refused' : 'allowed',
    audit: `container.${definition.action}`,
    tag: 'Containers',
    summary: definition.summary,
    params: ContainerPathSchema,
    ...(definition.forceable ? { body: ActionBodySchema, bodyOptional: true, example: { force: false } } : {}),
    ...(definition.action === 'delete' ? { query: DeleteQuerySchema } : {}),
    data: QueuedSchema,
    conditional: true,
    statuses: [202],
    errors: [
      ...(definition.action === 'delete' ? ['delete_protected', 'agent_outdated'] : []),
      'invalid_state',
      'policy_blocked',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
    ],
    handle: (context) => queueAction(parts, definition, context),
  })
}

async function queueAction(
  parts: UndoDeleteParts,
  { action, order }: ActionDefinition,
  context: ActionContext,
): Promise<Answer<Static<typeof QueuedSchema>>> {
  const fields = {
    uuid: context.guest.guest.uuid,
    force: context.body?.force ?? false,
    liftBlock: !isBound(context.caller),
    retainMs: action === 'delete' ? retentionOf(parts, context.guest, checkNow(context.caller, context.query.now)) : 0,
  }
  const { data } = await queueOrder(parts.fleet, context, { action, order: order(fields) })
  return { status: 202, message: `${action} queued`, data }
}

async function createContainer(
  parts: CreationParts,
  context: RequestContext<unknown, unknown, CreateBody>,
): Promise<Answer<Static<typeof CreatedSchema>>> {
  const planned = await checkCreation(parts, context.body, context.caller)
  const { hostId, ...data } = await orderCreation(parts, planned, context)
  const { summary } = planned
  const detail = `id ${data.id}, host ${hostId}, task ${context.operationId}${summary && `, ${summary}`}`
  context.audit({ target: data.name, detail, containerUuid: data.uuid })
  return { status: 202, message: 'creation queued', data }
}
