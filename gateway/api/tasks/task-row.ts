import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { actorDescription, shownActor } from '../../access/shown-actor.js'
import { guestSubjectOf } from '../../fleet/operation-subject.js'
import type { OperationView } from '../../fleet/contract.js'
import { operationStatuses, operationStatusOf } from '../../fleet/lists/operation-table.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'

export const TaskStatusSchema = oneOf(operationStatuses)

export const TaskRowSchema = Type.Object(
  {
    task_id: Type.String(),
    id: Type.String(),
    action: Type.String(),
    type: Type.String(),
    container_id: Type.Integer({
      description: 'Id of the container that the task concerns. 0: it does not concern a container.',
    }),
    container_name: Type.String(),
    image_id: Type.String({
      description: 'Id of the image that the task concerns. Empty: it does not concern an image.',
    }),
    host_id: Type.String(),
    status: TaskStatusSchema,
    progress: Type.Integer({ minimum: 0, maximum: 100 }),
    stage: Type.String(),
    error: Type.String({ description: 'Error message in English. Empty: the task did not fail.' }),
    error_code: Type.String({
      description: 'Stable error code, as in the field `code` of error answers. Empty: the task did not fail.',
    }),
    created_at: TimeSchema,
    started_at: timeSchema('the task began to run', 'it is still waiting'),
    finished_at: timeSchema('the task ended', 'it has not ended yet'),
    user: Type.String({ description: `Name of the caller that requested the task. ${actorDescription}` }),
    downtime_ms: Type.Integer({
      description:
        'Time in ms for which a virtual machine was paused during its live move. 0: not a live move, or not ended.',
    }),
  },
  { title: 'Task' },
)
export type TaskRow = Static<typeof TaskRowSchema>

/** Data of the answer if an action was queued. */
export const QueuedSchema = Type.Object(
  {
    task_id: Type.String(),
    container_name: Type.String(),
    status: TaskStatusSchema,
    action: Type.String(),
  },
  { title: 'QueuedTask' },
)

/** @param ownName result of `ownNameOf` for the reader */
export function taskRow({ hostId, operation }: OperationView, time: TimeFormat, ownName: string | undefined): TaskRow {
  const guest = guestSubjectOf(operation)
  return {
    task_id: operation.id,
    id: operation.id,
    action: operation.action,
    type: operation.action,
    container_id: guest?.number ?? 0,
    container_name: guest?.name ?? '',
    image_id: operation.subject?.kind === 'image' ? operation.subject.id : '',
    host_id: hostId,
    status: operationStatusOf(operation),
    progress: operation.progress,
    stage: operation.stage,
    error: operation.error,
    error_code: operation.errorCode,
    created_at: time.format(operation.createdAtMs),
    started_at: time.format(operation.startedAtMs),
    finished_at: time.format(operation.finishedAtMs),
    user: shownActor(operation.requestedBy, ownName),
    downtime_ms: operation.downtimeMs,
  }
}
