import type { ClientRequest, Connection, OpenAnswer, QueryValue, RequestOptions } from './http/connection.js'
import { TimeoutError, UnexpectedAnswerError } from './http/errors.js'
import { Sender, type SenderOptions } from './http/sender.js'
import { streamEvents, type BerthEvent, type EventOptions } from './events/event-stream.js'
import { pollUntilEnd } from './tasks/poll.js'
import { taskIdsOf } from './tasks/plan-poll.js'
import { isTaskEnded, TaskFailedError, type Task } from './tasks/task.js'
import type {
  DataOf,
  EnvelopeOf,
  ListPath,
  Method,
  PathOf,
  RequestArgument,
  RequestOf,
  RowOf,
} from './typed/operations.js'

export interface ClientOptions extends Connection, Partial<SenderOptions> {}

/** The usual form of answers. Some answers have further fields. */
export interface Envelope {
  readonly message?: string
  readonly data?: unknown
  readonly [field: string]: unknown
}

export interface Answer<Body = Envelope, Data = unknown> {
  readonly status: number
  readonly body: Body
  /** The field `data` of the body. */
  readonly data: Data
  /** Version of the object, for `ifMatch`. */
  readonly etag: string | undefined
  /** Number of rows on all pages of a list. */
  readonly total: number | undefined
}

type AnswerOf<Path extends PathOf<M>, M extends Method> = Promise<
  Answer<EnvelopeOf<Path, M>, DataOf<EnvelopeOf<Path, M>>>
>

export interface FollowOptions {
  /** Called with the state of a task that is still in progress. */
  readonly onProgress?: (task: Task) => void
  /** Longest time to wait in ms. Default: no limit. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

const defaults: SenderOptions = {
  attempts: 5,
  connectAttempts: 4,
  maxDelayMs: 30_000,
  maxAnswerBytes: 256 * 1024 * 1024, // the list of 100,000 guests has 110 MB
  onRetry: () => undefined,
}

/** A client of one gateway. */
export class BerthClient {
  readonly connection: Connection
  readonly #sender: Sender

  constructor({ url, key, ca, ...options }: ClientOptions) {
    this.connection = { url: url.replace(/\/+$/, ''), key, ...(ca !== undefined && { ca }) }
    this.#sender = new Sender(this.connection, { ...defaults, ...options })
  }

  get<P extends PathOf<'GET'>>(path: P, ...[request]: RequestArgument<P, 'GET'>): AnswerOf<P, 'GET'> {
    return this.#call('GET', path, request) as AnswerOf<P, 'GET'>
  }

  post<P extends PathOf<'POST'>>(path: P, ...[request]: RequestArgument<P, 'POST'>): AnswerOf<P, 'POST'> {
    return this.#call('POST', path, request) as AnswerOf<P, 'POST'>
  }

  put<P extends PathOf<'PUT'>>(path: P, ...[request]: RequestArgument<P, 'PUT'>): AnswerOf<P, 'PUT'> {
    return this.#call('PUT', path, request) as AnswerOf<P, 'PUT'>
  }

  patch<P extends PathOf<'PATCH'>>(path: P, ...[request]: RequestArgument<P, 'PATCH'>): AnswerOf<P, 'PATCH'> {
    return this.#call('PATCH', path, request) as AnswerOf<P, 'PATCH'>
  }

  delete<P extends PathOf<'DELETE'>>(path: P, ...[request]: RequestArgument<P, 'DELETE'>): AnswerOf<P, 'DELETE'> {
    return this.#call('DELETE', path, request) as AnswerOf<P, 'DELETE'>
  }

  #call(method: Method, path: string, given: unknown = {}): Promise<Answer> {
    const { path: parameters = {}, ...rest } = given as UntypedRequest
    return this.send({ method, path: fillPath(path, parameters), ...rest })
  }

  /** Sends any request. @throws {RefusedError} @throws {UnreachableError} @throws {UnexpectedAnswerError} */
  async send(request: ClientRequest): Promise<Answer> {
    const { answer, bytes } = await this.#sender.read(request)
    const { status, headers } = answer
    const body = parseEnvelope(bytes, this.connection.url)
    const total = headers['x-total-count']
    return { status, body, data: body.data, etag: etagOf(answer), total: total === undefined ? total : Number(total) }
  }

  /** Sends any request and returns the body of the answer as it is. @throws as `send` */
  async read(request: ClientRequest): Promise<{ status: number; bytes: Uint8Array; etag: string | undefined }> {
    const { answer, bytes } = await this.#sender.read(request)
    return { status: answer.status, bytes, etag: etagOf(answer) }
  }

  /** Sends any request and returns the answer before its body was received. @throws as `send` */
  open(request: ClientRequest): Promise<OpenAnswer> {
    return this.#sender.open(request)
  }

  /** Returns the rows of a list, and requests one page after another. Rows that are added meanwhile can be missing. */
  async *rows<P extends ListPath>(
    path: P,
    { pageSize = 200, ...given }: Partial<RequestOf<P, 'GET'>> & { readonly pageSize?: number } = {},
  ): AsyncGenerator<RowOf<P>> {
    const { query = {}, ...rest } = given as UntypedRequest
    for (let page = 1, left = Infinity; left > 0; page++) {
      const answer = await this.#call('GET', path, { ...rest, query: { ...query, page, page_size: pageSize } })
      yield* answer.data as RowOf<P>[]
      left = (answer.total ?? 0) - page * pageSize
    }
  }

  /** Returns events. After a lost connection, continues with the event that follows the last received one. */
  events(options: EventOptions = {}): AsyncGenerator<BerthEvent> {
    return streamEvents((request, maxSilenceMs) => this.#sender.open(request, maxSilenceMs), options)
  }

  /** Waits until a task has ended, and returns the task, even a failed one. @throws {TimeoutError} and as `send` */
  followTask(id: string, { onProgress, timeoutMs = Infinity, signal }: FollowOptions = {}): Promise<Task> {
    const request = { method: 'GET', path: `/tasks/${encodeURIComponent(id)}`, ...(signal && { signal }) }
    return pollUntilEnd<Task>({
      read: async () => (await this.send(request)).data as Task,
      isEnded: isTaskEnded,
      show: (task) => onProgress?.(task),
      timeoutMs,
      timedOut: () => new TimeoutError(`task ${id} did not end in time`),
      signal,
    })
  }

  /**
   * Waits until all tasks that a request has started have succeeded, and returns these tasks.
   * @throws {TaskFailedError} @throws {TimeoutError} and as `send`
   */
  async waitForTasks({ status, data }: Pick<Answer, 'status' | 'data'>, options: FollowOptions = {}): Promise<Task[]> {
    const endMs = performance.now() + (options.timeoutMs ?? Infinity)
    const tasks: Task[] = []
    for (const id of taskIdsOf(status, data)) {
      const task = await this.followTask(id, { ...options, timeoutMs: Math.max(0, endMs - performance.now()) })
      if (task.status !== 'done') throw new TaskFailedError(task)
      tasks.push(task)
    }
    return tasks
  }
}

interface UntypedRequest extends RequestOptions {
  readonly path?: Readonly<Record<string, string | number>>
  readonly query?: Readonly<Record<string, QueryValue>>
  readonly body?: unknown
}

function fillPath(path: string, parameters: Readonly<Record<string, string | number>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(parameters[name] ?? '')
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`${path}: ${name} must not be empty`)
    return encodeURIComponent(value)
  })
}

const etagOf = ({ headers }: OpenAnswer): string | undefined => headers['etag'] as string | undefined

function parseEnvelope(bytes: Uint8Array, url: string): Envelope {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as Envelope
  } catch (cause) {
    throw new UnexpectedAnswerError(`${url} does not answer like a gateway of Berth: ${(cause as Error).message}`)
  }
}
