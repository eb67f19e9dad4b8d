import { Metadata, type CallOptions, type ClientUnaryCall, type ServiceError } from '@grpc/grpc-js'
import { BackupServiceService } from '../../proto/gen/berth/agent/v1/backup.js'
import { GuestServiceService } from '../../proto/gen/berth/agent/v1/guest.js'
import { ImageServiceService } from '../../proto/gen/berth/agent/v1/image.js'
import { HostServiceService } from '../../proto/gen/berth/agent/v1/host.js'
import { GuestSettingsServiceService, RoutingServiceService } from '../../proto/gen/berth/agent/v1/network.js'
import { OperationServiceService } from '../../proto/gen/berth/agent/v1/operation.js'
import { SecurityServiceService } from '../../proto/gen/berth/agent/v1/security.js'
import { BerthError } from '../../shared/errors.js'
import { fromServiceError } from '../../shared/grpc-errors.js'
import type { AgentConnection } from './agent-connection.js'
import type { AgentClient, Calls, ConsoleListener, ConsoleStream } from './contract.js'

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall

/** Most calls that wait for one host, should its agent stall. */
const maxWaiting = 2000

/** In ms, by call. An operation may be on any host, so its caller waits for the slowest one. */
const shortTimeouts: Readonly<Record<string, number>> = { getOperation: 2000 }
/** What the agent itself asks others for, who may be slow. */
const longTimeouts: Readonly<Record<string, number>> = { listBackups: 70_000 }

/**
 * grpc-js' text (1.14.7, subchannel-call.ts) for REFUSED_STREAM: the peer did nothing with the call (RFC 9113, 8.7).
 */
const refusedStream = 'Stream refused by server'

/**
 * Makes one call with a deadline. @throws {BerthError} see `fromServiceError`; `host_offline` on a closed connection
 */
export function callAgent<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  options: { step: string; timeoutMs: number },
): Promise<Response> {
  return new Promise<Response>((resolve, reject) => {
    const deadline = Date.now() + options.timeoutMs
    const call = method(request, new Metadata(), { deadline }, (error, response) => {
      if (!error) return resolve(response)
      // A call that has a peer was sent on a connection.
      const left = call.getAuthContext() !== null && error.details !== refusedStream
      reject(fromServiceError(error, { step: options.step, left }))
    })
  }).catch((cause: unknown) => {
    if (cause instanceof BerthError) throw cause
    // grpc-js throws synchronously when its channel was closed meanwhile.
    throw new BerthError('unavailable', 'host_offline', 'the host is not reachable', { cause })
  })
}

/** An agent's calls on one connection. */
export class GrpcAgentClient implements AgentClient {
  #waiting = 0

  constructor(
    private readonly connection: AgentConnection,
    private readonly timeoutMs: number,
  ) {}

  readonly backups = this.#calls(BackupServiceService, ({ backups }) => backups)

  readonly guests = this.#calls(GuestServiceService, ({ guests }) => guests)

  readonly settings = this.#calls(GuestSettingsServiceService, ({ settings }) => settings)

  readonly routing = this.#calls(RoutingServiceService, ({ routing }) => routing)

  readonly images = this.#calls(ImageServiceService, ({ images }) => images)
  readonly hosts = this.#calls(HostServiceService, ({ hosts }) => hosts)

  readonly security = this.#calls(SecurityServiceService, ({ security }) => security)

  readonly operations = this.#calls(OperationServiceService, ({ operations }) => operations)

  openConsole(listener: ConsoleListener): ConsoleStream {
    return this.connection.openConsole(listener)
  }

  /** Makes every call of a service; the step in errors is the call's name in words. */
  #calls<Service extends object>(
    service: Service,
    clientOf: (connection: AgentConnection) => object,
  ): Calls<Service> {
    const calls = Object.keys(service).map((name) => {
      const step = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
      const call = (request: unknown): Promise<unknown> => {
        const timeoutMs = longTimeouts[name] ?? Math.min(this.timeoutMs, shortTimeouts[name] ?? Infinity)
        const client = clientOf(this.connection) as Record<string, UnaryMethod<unknown, unknown>>
        return this.#call(client, name, { request, step, timeoutMs })
      }
      return [name, call]
    })
    return Object.fromEntries(calls) as Calls<Service>
  }

  async #call(
    client: Record<string, UnaryMethod<unknown, unknown>>,
    name: string,
    { request, ...options }: { request: unknown; step: string; timeoutMs: number },
  ): Promise<unknown> {
    if (this.#waiting >= maxWaiting)
      throw new BerthError('unavailable', 'host_offline', 'the host has too many calls waiting')
    this.#waiting++
    try {
      return await callAgent(client[name]!.bind(client), request, options)
    } finally {
      this.#waiting--
    }
  }
}
