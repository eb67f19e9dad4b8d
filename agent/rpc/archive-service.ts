import type { ServerDuplexStream, ServerUnaryCall } from '@grpc/grpc-js'
import type { Logger } from 'pino'
import type {
  ArchiveServiceServer,
  ArchiveStreamServiceServer,
  DescribeArchiveRequest,
  DescribeArchiveResponse,
  ReceiveArchiveRequest,
  ReceiveArchiveResponse,
} from '../../proto/gen/berth/agent/v1/archive.js'
import { BerthError, invalidField, toBerthError } from '../../shared/errors.js'
import { toServiceError } from '../../shared/grpc-errors.js'
import { untilAborted } from '../../shared/async/until-aborted.js'
import { parseUuid } from '../guests/create/parse-create.js'
import type { DescribeArchive } from '../imports/describe-archive.js'
import { interrupted, type Uploads } from '../imports/uploads.js'
import { unary } from './unary.js'

export interface ArchiveServiceParts {
  readonly describeArchive: DescribeArchive
  readonly log: Logger
}

export interface ArchiveStreamServiceParts {
  readonly uploads: Uploads
  readonly log: Logger
}

type Call = ServerDuplexStream<ReceiveArchiveRequest, ReceiveArchiveResponse>
type Messages = AsyncIterator<ReceiveArchiveRequest>
type State = NonNullable<ReceiveArchiveResponse['state']>

/** Maximum duration of an import in ms. */
const longestMs = 24 * 3_600_000

export function createArchiveService({ describeArchive, log }: ArchiveServiceParts): ArchiveServiceServer {
  return {
    describeArchive: (call, callback) =>
      unary<DescribeArchiveRequest, DescribeArchiveResponse>(log, 'describe archive', (request) =>
        describeArchive(request, cancellationOf(call)),
      )(call, callback),
  }
}

/** Returns a signal that is aborted when the gateway cancels the call, or disconnects. */
function cancellationOf(call: Pick<ServerUnaryCall<unknown, unknown>, 'cancelled' | 'on'>): AbortSignal {
  const canceled = new AbortController()
  const abort = (): void => canceled.abort(new BerthError('conflict', 'canceled', 'the call was canceled'))
  if (call.cancelled) abort()
  call.on('cancelled', abort)
  return canceled.signal
}

/** Receives archives. If the call ends too early, the creation of the guest is undone. */
export function createArchiveStreamService({ uploads, log }: ArchiveStreamServiceParts): ArchiveStreamServiceServer {
  return {
    receiveArchive: (call) => {
      const gone = new AbortController()
      const end = (): void => gone.abort(interrupted())
      const timer = setTimeout(end, longestMs)
      for (const event of ['cancelled', 'close', 'error'] as const) call.on(event, end)
      serve(uploads, call, gone.signal)
        .catch((error: unknown) => {
          const known = toBerthError(error, 'the archive could not be imported: see the log of the agent')
          if (known.kind === 'internal') log.error({ err: error }, 'an import failed')
          call.emit('error', toServiceError(known, 'receive archive')) // `destroy` would send no status
        })
        .finally(() => clearTimeout(timer))
    },
  }
}

async function serve(uploads: Uploads, call: Call, signal: AbortSignal): Promise<void> {
  const messages = call.iterator({ destroyOnReturn: false }) as Messages
  const { id, bytes } = await readBegin(messages, signal)
  const upload = uploads.open({ id, bytes, parts: dataOf(messages, signal) })
  const end = (): void => upload.fail(signal.reason)
  signal.addEventListener('abort', end, { once: true })
  try {
    send(call, { $case: 'accepted', value: {} })
    await upload.wanted
    send(call, { $case: 'wanted', value: {} })
    await upload.unpacked
    send(call, { $case: 'unpacked', value: {} })
    call.end()
  } finally {
    signal.removeEventListener('abort', end)
    uploads.close(upload)
  }
}

function send(call: Call, state: State): void {
  call.write({ state })
}

/** @throws {BerthError} `invalid_field`, `import_interrupted` */
async function readBegin(messages: Messages, signal: AbortSignal): Promise<{ id: string; bytes: number }> {
  const message = await nextOf(messages, signal)
  if (message?.part?.$case !== 'begin') throw invalidField('begin', 'begin: must be the first message')
  const { id, bytes } = message.part.value
  return { id: parseUuid('id', id), bytes }
}

/**
 * Returns the parts of the archive. Rejects if the call ends too early. When a call of grpc-js 1.14.7 is canceled, its
 * messages can end before the event `cancelled`, as if all had been received. Only the message `end` is reliable.
 */
async function* dataOf(messages: Messages, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (;;) {
    const message = await nextOf(messages, signal)
    if (!message) throw interrupted()
    if (message.part?.$case === 'end') return
    if (message.part?.$case !== 'data') throw invalidField('data', 'data: must follow the first message')
    yield message.part.value
  }
}

async function nextOf(messages: Messages, signal: AbortSignal): Promise<ReceiveArchiveRequest | undefined> {
  const message = await untilAborted(messages.next(), signal)
  return message.done ? undefined : message.value
}
