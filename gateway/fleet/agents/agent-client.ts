import { Metadata, type CallOptions, type ClientUnaryCall, type ServiceError } from '@grpc/grpc-js'
import type { Readable } from 'node:stream'
import { ArchiveServiceService, type ReceiveArchiveBegin } from '../../../proto/gen/berth/agent/v1/archive.js'
import { BackupServiceService } from '../../../proto/gen/berth/agent/v1/backup.js'
import type { ExportGuestRequest } from '../../../proto/gen/berth/agent/v1/export.js'
import { GuestServiceService } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ImageServiceService } from '../../../proto/gen/berth/agent/v1/image.js'
import { ImportServiceService } from '../../../proto/gen/berth/agent/v1/import.js'
import { HostServiceService } from '../../../proto/gen/berth/agent/v1/host.js'
import { GuestSettingsServiceService, RoutingServiceService } from '../../../proto/gen/berth/agent/v1/network.js'
import { MoveServiceService } from '../../../proto/gen/berth/agent/v1/move.js'
import { OperationServiceService } from '../../../proto/gen/berth/agent/v1/operation.js'
import { SecurityServiceService } from '../../../proto/gen/berth/agent/v1/security.js'
import { BerthError } from '../../../shared/errors.js'
import { fenceKey, formatFence, type Fence } from '../../../shared/fence.js'
import { fromServiceError, UnansweredError } from '../../../shared/grpc-errors.js'
import type { AgentConnection } from './agent-connection.js'
import type { AgentLink } from './agent-link.js'
import { openExport } from './open-export.js'
import { openUpload } from './open-upload.js'
import type { AgentClient, ArchiveUpload, Calls, ConsoleOpener } from '../agent-contract.js'

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall

/** Maximum number of calls that wait for one host. It limits the memory that the gateway uses if an agent stalls. */
const maxWaiting = 2000

/** Timeouts in ms that are shorter than the default. The gateway calls `getOperation` at all hosts, also slow ones. */
const shortTimeouts: Readonly<Record<string, number>> = { getOperation: 2000 }
/** Longer timeouts of calls, in ms. During these calls the agent waits for other servers, which can be slow. */
const longTimeouts: Readonly<Record<string, number>> = { listBackups: 70_000, describeArchive: 30_000 }

/** Time in ms in which an export must begin. The agent first freezes the guest, and takes a snapshot. */
const exportTimeoutMs = 60_000

/** Message of grpc-js 1.14.7 for REFUSED_STREAM, which means that the peer did not process the call (RFC 9113, 8.7). */
const refusedStream = 'Stream refused by server'

/**
 * Makes one call with a deadline.
 * @throws {BerthError} as `fromServiceError`. `UnansweredError` is also thrown if the connection was closed
 */
export function callAgent<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  options: CallParts,
): Promise<Response> {
  return new Promise<Response>((resolve, reject) => {
    const deadline = Date.now() + options.timeoutMs
    const call = method(request, metadataOf(options), { deadline }, (error, response) => {
      online?.()
      if (!error) return resolve(response)
      // `left`: true if the agent has possibly received the call. Only a sent call has an authentication context.
      const left = call.getAuthContext() !== null && error.details !== refusedStream
      reject(fromServiceError(error, { step: options.step, left }))
    })
    const online = options.link?.whileOnline(() => call.cancel())
  }).catch((cause: unknown) => {
    if (cause instanceof BerthError) throw cause
    // grpc-js throws synchronously if the channel was already closed.
    throw new UnansweredError(false, cause)
  })
}

function metadataOf({ fence }: CallParts): Metadata {
  const metadata = new Metadata()
  if (fence) metadata.set(fenceKey, formatFence(fence))
  return metadata
}

interface CallParts {
  readonly step: string
  readonly timeoutMs: number
  /** Link to the host. The call is canceled when the host goes offline. Absent: the call is not canceled. */
  readonly link?: AgentLink
  /** Proof that this process holds the lease for the call's work (shared/fence.ts). Absent: the call has no fence. */
  readonly fence?: Fence | undefined
}

interface RepeatableCall extends CallParts {
  readonly link: AgentLink
  readonly send: (connection: AgentConnection, parts: CallParts) => Promise<unknown>
  readonly isIdempotent: boolean
}

/** Calls to the agent of one host. Each call uses the current connection. */
export class GrpcAgentClient implements AgentClient {
  #waiting = 0

  constructor(
    readonly link: AgentLink,
    private readonly timeoutMs: number,
  ) {}

  readonly archives = this.#calls(ArchiveServiceService, ({ archives }) => archives)

  readonly backups = this.#calls(BackupServiceService, ({ backups }) => backups)

  readonly guests = this.#calls(GuestServiceService, ({ guests }) => guests)

  readonly settings = this.#calls(GuestSettingsServiceService, ({ settings }) => settings)

  readonly routing = this.#calls(RoutingServiceService, ({ routing }) => routing)

  readonly images = this.#calls(ImageServiceService, ({ images }) => images)
  readonly imports = this.#calls(ImportServiceService, ({ imports }) => imports)
  readonly hosts = this.#calls(HostServiceService, ({ hosts }) => hosts)

  readonly security = this.#calls(SecurityServiceService, ({ security }) => security)

  readonly moves = this.#calls(MoveServiceService, ({ moves }) => moves)

  readonly operations = this.#calls(OperationServiceService, ({ operations }) => operations)

  /** Begins an export, on the next connection if the present one fails before the agent answers. */
  async exportGuest(request: ExportGuestRequest): Promise<Readable> {
    const parts = { link: this.link, timeoutMs: exportTimeoutMs }
    const send = (connection: AgentConnection) => openExport({ ...parts, connection }, request)
    return (await this.#call({ ...parts, send, step: 'export guest', isIdempotent: true })) as Readable
  }

  async receiveArchive(begin: ReceiveArchiveBegin): Promise<ArchiveUpload> {
    const { link, timeoutMs } = this
    return openUpload({ connection: await link.connected(), link, timeoutMs }, begin)
  }

  async consoleOpener(): Promise<ConsoleOpener> {
    const connection = await this.link.connected()
    return (listener) => connection.openConsole(listener)
  }

  /** Creates all calls of a service. Errors describe a call by its name, split into words. */
  #calls<Service extends object>(service: Service, clientOf: (connection: AgentConnection) => object): Calls<Service> {
    const calls = Object.keys(service).map((name) => {
      const step = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
      const call = (request: unknown, fence?: Fence): Promise<unknown> => {
        const timeoutMs = longTimeouts[name] ?? Math.min(this.timeoutMs, shortTimeouts[name] ?? Infinity)
        const send: RepeatableCall['send'] = (connection, parts) => {
          const client = clientOf(connection) as Record<string, UnaryMethod<unknown, unknown>>
          return callAgent(client[name]!.bind(client), request, parts)
        }
        return this.#call({
          send,
          step,
          timeoutMs,
          link: this.link,
          fence,
          isIdempotent: isIdempotent(name, request),
        })
      }
      return [name, call]
    })
    return Object.fromEntries(calls) as Calls<Service>
  }

  async #call(call: RepeatableCall): Promise<unknown> {
    if (this.#waiting >= maxWaiting)
      throw new BerthError('unavailable', 'host_offline', 'too many calls are waiting for the host: try again later')
    this.#waiting++
    try {
      return await callWhileOnline(call)
    } finally {
      this.#waiting--
    }
  }
}

/**
 * Sends a call to a host. If the connection fails, sends the call again on the next connection. A call that must not be
 * executed twice is not sent again if the agent could have executed it.
 */
async function callWhileOnline({ send, isIdempotent, ...parts }: RepeatableCall): Promise<unknown> {
  const { link, timeoutMs } = parts
  let connection = link.ready() ?? (await link.connected())
  for (const startMs = performance.now(); ;) {
    const sentMs = performance.now()
    try {
      return await send(connection, parts)
    } catch (error) {
      if (!(error instanceof UnansweredError) || (error.left && !isIdempotent)) throw error
      // After a pause of this process, the call is repeated even if its timeout has passed during the pause.
      const hasTime = performance.now() - startMs < timeoutMs || link.lastPauseMs() > sentMs
      const next = hasTime ? await link.connected(connection).catch(() => undefined) : undefined
      if (!next) throw error
      connection = next
    }
  }
}

/** True for reads, and for writes with an operation id, because the agent recognizes a repeated id. */
function isIdempotent(name: string, request: unknown): boolean {
  if (/^(get|list|find|describe|diagnose|expect|appoint)/.test(name)) return true
  return Boolean((request as { operationId?: string }).operationId)
}
