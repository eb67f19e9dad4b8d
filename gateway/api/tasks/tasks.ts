import { Type } from 'typebox'
import { conflict } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Principal } from '../../access/principal.js'
import { ownNameOf, shownActor } from '../../access/shown-actor.js'
import type { Fleet, FleetView, OperationView } from '../../fleet/contract.js'
import { operationFields } from '../../fleet/lists/operation-table.js'
import { selectFrom } from '../../lists/query.js'
import { jsonListAnswer } from '../../http/json-list.js'
import { listQuery, parseListQuery, rangeOf } from '../../http/list.js'
import { route, type Answer, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { listedOperations } from '../../../shared/operation-limits.js'
import { taskRow, TaskRowSchema, TaskStatusSchema } from './task-row.js'

const TaskPathSchema = Type.Object({ task_id: Type.String({ maxLength: 64 }) })
const sortable = ['created_at', 'finished_at', 'status', 'action', 'container_id', 'container_name'] as const
const textFilter = Type.String({ maxLength: 64 })

const TaskListQuery = listQuery({
  status: TaskStatusSchema,
  action: textFilter,
  container_id: Type.Integer({ minimum: 0 }),
  container_name: textFilter,
  host_id: textFilter,
  user: Type.String({ maxLength: 128 }),
})

export function taskRoutes({ fleet, time }: { fleet: Fleet; time: TimeFormat }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/tasks',
      name: 'listTasks',
      subUser: 'allowed',
      sortable,
      scope: 'task:read',
      bound: 'own',
      tag: 'Tasks',
      summary: `Lists the tasks, newest first. Only the newest ${listedOperations} tasks of each host are listed`,
      query: TaskListQuery,
      data: Type.Array(TaskRowSchema),
      handle: async ({ caller, query }) => {
        const ownName = ownNameOf(caller)
        const { items, total } = await selectTasks(fleet.view, caller, query)
        return jsonListAnswer(items, (operation) => JSON.stringify(taskRow(operation, time, ownName)), total)
      },
    }),
    route({
      method: 'GET',
      path: '/tasks/{task_id}',
      name: 'getTask',
      subUser: 'allowed',
      scope: 'task:read',
      bound: 'task',
      tag: 'Tasks',
      summary: 'Returns a task. `host_offline` means that an offline host may have it',
      params: TaskPathSchema,
      data: TaskRowSchema,
      handle: ({ task, caller }) => ({ data: taskRow(task, time, ownNameOf(caller)) }),
    }),
    route({
      method: 'DELETE',
      path: '/tasks/{task_id}',
      name: 'deleteTask',
      subUser: 'refused',
      scope: 'task:delete',
      bound: 'task',
      audit: 'task.delete',
      tag: 'Tasks',
      summary: 'Cancels a pending task or a running task that can be canceled. Removes a finished task',
      params: TaskPathSchema,
      errors: ['task_running', 'host_offline', 'agent_timeout'],
      handle: (context) => endTask(fleet, context),
    }),
  ]
}

const listOptions = {
  sortable,
  filters: ['status', 'action', 'container_id', 'container_name', 'host_id', 'user'],
} as const

async function selectTasks(
  view: FleetView,
  caller: Principal,
  query: Record<string, unknown>,
): Promise<{ items: OperationView[]; total: number }> {
  const [wanted, range] = [parseListQuery(query, listOptions), rangeOf(query)]
  if (caller.guests !== 'all') {
    const own = selectFrom(view.operationsOf(caller.guests), fieldsFor(caller), wanted)
    return { items: own.slice(...range), total: own.length }
  }
  const result = await view.operationTable.select(wanted)
  return { items: result.slice(...range), total: result.size }
}

/** Returns the fields by which a caller filters. Sub-users cannot find out names that they may not see. */
function fieldsFor(caller: Principal): typeof operationFields {
  const ownName = ownNameOf(caller)
  return { ...operationFields, user: ({ operation }) => shownActor(operation.requestedBy, ownName) }
}

async function endTask(
  fleet: Fleet,
  context: RequestContext<unknown, unknown, unknown> & Subjects['task'],
): Promise<Answer<never>> {
  const { task: found } = context
  const { action, subject } = found.operation
  context.audit({ detail: `${action} ${subject?.name ?? ''}`.trim() })
  switch (found.operation.status) {
    case 'pending':
      return cancelTask(fleet, found, 'task canceled')
    case 'running':
      return cancelTask(fleet, found, 'the task is being canceled: its changes are undone')
    case 'done':
    case 'failed':
    case 'canceled':
      return removeTask(fleet, found)
    default:
      throw conflict('task_running', 'the task is running and cannot be canceled')
  }
}

/** Asks the agent to cancel a task. The agent rejects this if the task cannot be stopped now. */
async function cancelTask(fleet: Fleet, { hostId, operation }: OperationView, message: string): Promise<Answer<never>> {
  const { revision } = await fleet.agent(hostId).operations.cancelOperation({ id: operation.id })
  await fleet.reached(hostId, revision)
  return { message }
}

async function removeTask(fleet: Fleet, { hostId, operation }: OperationView): Promise<Answer<never>> {
  const { revision } = await fleet.agent(hostId).operations.removeOperation({ id: operation.id })
  await fleet.reached(hostId, revision)
  return { message: 'task removed' }
}
