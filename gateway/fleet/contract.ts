import type {
  CreateGuestRequest,
  CreateGuestResponse,
  DeleteGuestRequest,
  DeleteGuestResponse,
  GetGuestUsageResponse,
  Guest,
  RestartGuestRequest,
  RestartGuestResponse,
  StartGuestRequest,
  StartGuestResponse,
  StopGuestRequest,
  StopGuestResponse,
} from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type { CancelOperationResponse, Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** A guest as an agent reported it, and where it lives. */
export interface GuestView {
  readonly hostId: string
  readonly guest: Guest
  /** False while its host is away: its status is then shown as `unknown`. */
  readonly online: boolean
}

export interface OperationView {
  readonly hostId: string
  readonly operation: Operation
}

export interface TemplateView {
  readonly hostId: string
  readonly template: Template
}

export type HostState = 'pending' | 'online' | 'offline'

/** A host of the fleet: its record in the store and what its agent reports. */
export interface HostView {
  readonly id: string
  readonly name: string
  /** host:port the gateway dials; set by the administrator. */
  readonly address: string
  /** `pending`: no agent has joined yet. */
  readonly state: HostState
  readonly draining: boolean
  readonly createdAtMs: number
  /** 0: never. */
  readonly lastSeenMs: number
  readonly description: HostDescription | undefined
  readonly metrics: HostMetrics | undefined
}

/** Everything the gateway knows of the fleet, in memory; no method does I/O. */
export interface FleetView {
  /** Changes whenever anything a guest list shows has changed; for caches and ETags. */
  readonly guestsVersion: number
  guests(): Iterable<GuestView>
  /** By numeric id, uuid or name. */
  findGuest(ref: string): GuestView | undefined
  /** Newest first. */
  operations(): OperationView[]
  findOperation(id: string): OperationView | undefined
  templates(): Iterable<TemplateView>
  hosts(): HostView[]
  findHost(id: string): HostView | undefined
}

/** Calls to one agent. Each throws BerthError: the agent's own, `host_offline` or `agent_timeout`. */
export interface AgentClient {
  createGuest(request: CreateGuestRequest): Promise<CreateGuestResponse>
  startGuest(request: StartGuestRequest): Promise<StartGuestResponse>
  stopGuest(request: StopGuestRequest): Promise<StopGuestResponse>
  restartGuest(request: RestartGuestRequest): Promise<RestartGuestResponse>
  deleteGuest(request: DeleteGuestRequest): Promise<DeleteGuestResponse>
  getGuestUsage(uuid: string): Promise<GetGuestUsageResponse>
  cancelOperation(id: string): Promise<CancelOperationResponse>
  removeOperation(id: string): Promise<{ revision: number }>
}

export interface Fleet {
  readonly view: FleetView
  /** @throws {BerthError} `host_offline` */
  agent(hostId: string): AgentClient
  /** Read your own writes: resolves when the view has reached the host's revision, or after the call timeout. */
  reached(hostId: string, revision: number): Promise<void>
}
