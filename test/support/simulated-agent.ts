import { Server, type UntypedServiceImplementation } from '@grpc/grpc-js'
import { isDeepStrictEqual } from 'node:util'
import { certificateService } from '../../agent/rpc/certificates.js'
import { bind, type Bound } from '../../agent/rpc/server.js'
import { createServerCredentials, type AgentTls } from '../../agent/rpc/tls.js'
import { unary } from '../../agent/rpc/unary.js'
import { createWatchService } from '../../agent/rpc/watch-service.js'
import { CertificateServiceService } from '../../proto/gen/berth/agent/v1/certificate.js'
import {
  GetGuestUsageResponse,
  GuestServiceService,
  GuestStatus,
  type Guest,
  type GuestServiceServer,
} from '../../proto/gen/berth/agent/v1/guest.js'
import { GuestSettingsServiceService, RoutingServiceService } from '../../proto/gen/berth/agent/v1/network.js'
import { HostServiceService } from '../../proto/gen/berth/agent/v1/host.js'
import {
  OperationServiceService,
  OperationStatus,
  type Operation,
  type CreateOrder,
  type OperationServiceServer,
  type SubmitOperationRequest,
  type SubmitOperationResponse,
} from '../../proto/gen/berth/agent/v1/operation.js'
import { WatchServiceService, type WatchServiceServer } from '../../proto/gen/berth/agent/v1/watch.js'
import { conflict, notFound } from '../../shared/errors.js'
import { silentLog } from './redis.js'
import { refuseBlocked } from './simulated-settings.js'
import { guestOf, runningOperation, SimulatedHost } from './simulated-host.js'

export interface SimulatedAgentOptions {
  readonly identityDir: string
  /** Default 127.0.0.1:0. */
  readonly listen?: string
  /** State of an earlier server, to continue. */
  readonly host?: SimulatedHost
  /** How long an operation runs; default 20 ms. */
  readonly operationMs?: number
  /** Default 1000. */
  readonly metricsEveryMs?: number
  /** Called first for every creation; may throw what the agent should answer. */
  readonly onCreate?: (order: CreateOrder) => void | Promise<void>
  /** Instead of the journal's answer, for agents that misbehave. */
  readonly onGetOperation?: (id: string) => Operation | Promise<Operation>
  /** Instead of the agent's own Watch, for agents that misbehave. */
  readonly watch?: WatchServiceServer
}

/** The guest's status while it runs and afterwards; undefined: gone. */
const effects = {
  start: [GuestStatus.GUEST_STATUS_STARTING, GuestStatus.GUEST_STATUS_RUNNING],
  stop: [GuestStatus.GUEST_STATUS_STOPPING, GuestStatus.GUEST_STATUS_STOPPED],
  restart: [GuestStatus.GUEST_STATUS_RESTARTING, GuestStatus.GUEST_STATUS_RUNNING],
  delete: [GuestStatus.GUEST_STATUS_DELETING, undefined],
} as const

/** An agent over real gRPC and mutual TLS whose guests are numbers in memory. */
export class SimulatedAgent {
  readonly host: SimulatedHost
  readonly tls: AgentTls
  readonly #server = new Server({ 'grpc.max_concurrent_streams': 1000 })
  readonly #created = new Map<
    string,
    { request: SubmitOperationRequest; response: SubmitOperationResponse }
  >()
  readonly #watch: { service: WatchServiceServer; close: () => void }
  readonly #timers = new Set<NodeJS.Timeout>()
  #bound: Bound | undefined

  private constructor(private readonly options: SimulatedAgentOptions) {
    this.tls = createServerCredentials(options.identityDir)
    this.host = options.host ?? new SimulatedHost(this.tls.identity().hostId)
    this.#watch = createWatchService(this.host.watchSource)
    this.#server.addService(GuestServiceService, this.#guestService())
    this.#server.addService(GuestSettingsServiceService, servedBy(this.host.settings.calls))
    this.#server.addService(RoutingServiceService, servedBy(this.host.settings.routing.calls))
    this.#server.addService(OperationServiceService, this.#operationService())
    this.#server.addService(HostServiceService, {
      describe: unary(silentLog, 'describe', () => ({ host: this.host.description })),
    })
    this.#server.addService(WatchServiceService, options.watch ?? this.#watch.service)
    this.#server.addService(CertificateServiceService, certificateService(options.identityDir, this.tls))
  }

  static async start(options: SimulatedAgentOptions): Promise<SimulatedAgent> {
    const agent = new SimulatedAgent(options)
    agent.#bound = await bind(agent.#server, options.listen ?? '127.0.0.1:0', agent.tls)
    agent.#every(options.metricsEveryMs ?? 1000, () => agent.host.sample())
    return agent
  }

  get address(): string {
    return `127.0.0.1:${this.#bound?.port ?? 0}`
  }

  /** Ends the server at once, as a killed process would; the host's state stays. */
  stop(): void {
    this.#watch.close()
    this.#timers.forEach((timer) => clearInterval(timer))
    this.#bound?.close()
    this.#server.forceShutdown()
  }

  /** A new server on the same address with the same state. */
  async restart(options: Partial<SimulatedAgentOptions> = {}): Promise<SimulatedAgent> {
    this.stop()
    return SimulatedAgent.start({ ...this.options, listen: this.address, ...options, host: this.host })
  }

  #guestService(): GuestServiceServer {
    const { host } = this
    return {
      getGuestUsage: unary(silentLog, 'usage', ({ uuid }) => {
        if (!host.guests.has(uuid)) throw notFound('guest')
        return GetGuestUsageResponse.fromPartial({
          cpuUsagePct: 1,
          memoryUsageBytes: 1,
          sampledAtMs: Date.now(),
        })
      }),
    }
  }

  #operationService(): OperationServiceServer {
    const { host } = this
    const get = (id: string): Operation => {
      const operation = host.operations.get(id)
      if (!operation) throw notFound('operation')
      return operation
    }
    return {
      submitOperation: unary(silentLog, 'submit', (request) => this.#submit(request)),
      getOperation: unary(silentLog, 'operation', async ({ id }) => ({
        operation: await (this.options.onGetOperation ?? get)(id),
      })),
      cancelOperation: unary(silentLog, 'cancel', ({ id }) => {
        if (get(id).status !== OperationStatus.OPERATION_STATUS_PENDING)
          throw conflict('task_running', 'the task is not pending')
        const operation = host.setOperation({ id, status: OperationStatus.OPERATION_STATUS_CANCELED })
        return { operation, revision: host.changes.revision }
      }),
      removeOperation: unary(silentLog, 'remove', ({ id }) => {
        get(id)
        host.deleteOperation(id)
        return { revision: host.changes.revision }
      }),
    }
  }

  async #submit(request: SubmitOperationRequest): Promise<SubmitOperationResponse> {
    const { order } = request
    if (order?.$case === 'create') {
      await this.options.onCreate?.(order.value)
      return this.#create(request, order.value)
    }
    if (!order || !Object.hasOwn(effects, order.$case)) throw new Error('an order that is not simulated')
    return this.#act(order.$case as keyof typeof effects, { ...request, uuid: order.value.uuid })
  }

  #create(request: SubmitOperationRequest, order: CreateOrder): SubmitOperationResponse {
    const earlier = this.#created.get(request.operationId)
    if (earlier) {
      if (isDeepStrictEqual(earlier.request, request)) return earlier.response
      throw conflict('operation_conflict', 'the operation was submitted with another request')
    }
    const chosen = order.spec && this.host.settings.initial(order.spec)
    const guest = this.host.setGuest({ ...guestOf(order), ...chosen })
    const ends = order.spec?.start ? GuestStatus.GUEST_STATUS_RUNNING : GuestStatus.GUEST_STATUS_STOPPED
    const operation = this.#run('create', guest, request, ends)
    const { revision } = this.host.changes
    const response = { operation, guest, revision, sshPassword: 'Simulated1' }
    this.#created.set(request.operationId, { request, response })
    return response
  }

  #act(
    action: keyof typeof effects,
    request: { operationId: string; uuid: string; requestedBy: string },
  ): SubmitOperationResponse {
    const answer = { guest: undefined, sshPassword: '' }
    const earlier = this.host.operations.get(request.operationId)
    if (earlier) return { operation: earlier, revision: earlier.revision, ...answer }
    const guest = this.host.guests.get(request.uuid)
    if (!guest) throw notFound('guest')
    if (action === 'start' || action === 'restart') refuseBlocked(guest)
    const [during, after] = effects[action]
    this.host.setGuest({ uuid: guest.uuid, status: during })
    const operation = this.#run(action, guest, request, after)
    return { operation, revision: this.host.changes.revision, ...answer }
  }

  /** Journals an operation and ends it after a while. @param after undefined: the guest is gone then */
  #run(
    action: string,
    guest: Guest,
    { operationId, requestedBy }: { operationId: string; requestedBy: string },
    after: GuestStatus | undefined,
  ): Operation {
    const { host } = this
    const begun = runningOperation({ id: operationId, action, guest, user: requestedBy })
    const operation = host.setOperation(begun)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      const times = { startedAtMs: begun.createdAtMs, finishedAtMs: Date.now(), progress: 100 }
      host.setOperation({ id: operationId, ...times, status: OperationStatus.OPERATION_STATUS_DONE })
      if (after === undefined) host.deleteGuest(guest.uuid)
      else if (host.guests.has(guest.uuid)) host.setGuest({ uuid: guest.uuid, status: after })
    }, this.options.operationMs ?? 20)
    this.#timers.add(timer)
    return operation
  }

  #every(ms: number, work: () => void): void {
    work()
    this.#timers.add(setInterval(work, ms))
  }
}

/** Calls as the methods of a service. */
function servedBy(calls: object): UntypedServiceImplementation {
  const methods = Object.entries(calls) as [string, (request: unknown) => Promise<unknown>][]
  return Object.fromEntries(methods.map(([name, call]) => [name, unary(silentLog, name, call)]))
}
