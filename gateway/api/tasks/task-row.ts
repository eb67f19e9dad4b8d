import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { OperationStatus, type Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { OperationView } from '../../fleet/contract.js'
import { oneOf, TimeSchema } from '../../http/schema.js'

const statuses = ['pending', 'running', 'done', 'failed', 'canceled'] as const
export type TaskStatusName = (typeof statuses)[number]
export const TaskStatusSchema = oneOf(statuses)

export const TaskRowSchema = Type.Object(
  {
    task_id: Type.String(),
    id: Type.String(),
    action: Type.String(),
    type: Type.String(),
    container_id: Type.Integer({ description: '0: not about a container.' }),
    container_name: Type.String(),
    host_id: Type.String(),
    status: TaskStatusSchema,
    progress: Type.Integer({ minimum: 0, maximum: 100 }),
    stage: Type.String(),
    error: Type.String(),
    created_at: TimeSchema,
    started_at: TimeSchema,
    finished_at: TimeSchema,
    user: Type.String(),
  },
  { title: 'Task' },
)
export type TaskRow = Static<typeof TaskRowSchema>

/** What answers to a queued action. */
export const QueuedSchema = Type.Object(
  {
    task_id: Type.String(),
    container_name: Type.String(),
    status: TaskStatusSchema,
    action: Type.String(),
  },
  { title: 'QueuedTask' },
)

const statusNames: Partial<Record<OperationStatus, TaskStatusName>> = {
  [OperationStatus.OPERATION_STATUS_PENDING]: 'pending',
  [OperationStatus.OPERATION_STATUS_RUNNING]: 'running',
  [OperationStatus.OPERATION_STATUS_DONE]: 'done',
  [OperationStatus.OPERATION_STATUS_FAILED]: 'failed',
  [OperationStatus.OPERATION_STATUS_CANCELED]: 'canceled',
}

export function taskStatusOf(operation: Operation): TaskStatusName {
  return statusNames[operation.status] ?? 'pending'
}

export function taskRow({ hostId, operation }: OperationView, time: TimeFormat): TaskRow {
  const guest = operation.subject?.kind === 'guest' ? operation.subject : undefined
  return {
    task_id: operation.id,
    id: operation.id,
    action: operation.action,
    type: operation.action,
    container_id: guest?.number ?? 0,
    container_name: guest?.name ?? '',
    host_id: hostId,
    status: taskStatusOf(operation),
    progress: operation.progress,
    stage: operation.stage,
    error: operation.error,
    created_at: time.format(operation.createdAtMs),
    started_at: time.format(operation.startedAtMs),
    finished_at: time.format(operation.finishedAtMs),
    user: operation.requestedBy,
  }
}
