export { BerthClient, type Answer, type ClientOptions, type Envelope, type FollowOptions } from './berth-client.js'
export type { BerthEvent, EventOptions } from './events/event-stream.js'
export type { ClientRequest, Connection, OpenAnswer, RequestOptions } from './http/connection.js'
export {
  isTemporary,
  RefusedError,
  TimeoutError,
  UnexpectedAnswerError,
  UnreachableError,
  type Refusal,
} from './http/errors.js'
export { pollUntilEnd, type PollOptions } from './tasks/poll.js'
export { taskIdsOf } from './tasks/plan-poll.js'
export { nameOfTask, TaskFailedError, type Task } from './tasks/task.js'
export type { components, operations, paths } from './schema.gen.js'
