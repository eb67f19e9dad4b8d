import type { BackupServiceService } from '../../proto/gen/berth/agent/v1/backup.js'
import type { GuestServiceService, GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type {
  GuestSettingsServiceService,
  RoutingServiceService,
} from '../../proto/gen/berth/agent/v1/network.js'
import type {
  OperationServiceService,
  SubmitOperationResponse,
} from '../../proto/gen/berth/agent/v1/operation.js'
import type { GuestView, OperationView } from './reported.js'
import type { GuestCounts } from './guest-status.js'
import type { GuestBlock } from './lists/guest-blocks.js'
import type { GuestField } from './lists/guest-table.js'
import type { OperationField } from './lists/operation-table.js'
import type { Selectable } from './lists/table.js'

export type { GuestView, OperationView }

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
  /** End of the agent's certificate; 0: not joined. */
  readonly certificateNotAfterMs: number
  /** What the operator should know: the agent's own warnings, conflicting guests, refused data. */
  readonly warnings: readonly string[]
  readonly description: HostDescription | undefined
  readonly metrics: HostMetrics | undefined
}

/** Everything the gateway knows of the fleet, in memory; no method does I/O. */
export interface FleetView {
  /** Changes whenever anything a guest list shows has changed; for caches and ETags. */
  readonly guestsVersion: number
  /** In the order of their ids. */
  guests(): Iterable<GuestView>
  guestsOf(hostId: string): Iterable<GuestView>
  /** Sorted and filtered, by page. */
  readonly guestTable: Selectable<GuestView, GuestField>
  readonly guestBlocks: readonly GuestBlock[]
  /** Of one host; default: of all. */
  countGuests(hostId?: string): GuestCounts
  /** By numeric id, uuid or name. */
  findGuest(ref: string): GuestView | undefined
  findGuestByName(name: string): GuestView | undefined
  /** Newest first; of one host at most `listedOperations`. */
  operations(): OperationView[]
  /** Sorted and filtered, by page. */
  readonly operationTable: Selectable<OperationView, OperationField>
  /** About these guests, newest first. */
  operationsOf(guestUuids: Iterable<string>): OperationView[]
  findOperation(id: string): OperationView | undefined
  templates(): Iterable<TemplateView>
  hosts(): HostView[]
  countHosts(): { readonly total: number; readonly online: number }
  findHost(id: string): HostView | undefined
}

/** The calls of a service, as promises. */
export type Calls<Service> = {
  readonly [Name in keyof Service]: Service[Name] extends {
    requestSerialize: (request: infer Request) => Buffer
    responseDeserialize: (bytes: Buffer) => infer Response
  }
    ? (request: Request) => Promise<Response>
    : never
}

export type SettingsCalls = Calls<typeof GuestSettingsServiceService>
export type OperationCalls = Calls<typeof OperationServiceService>
export type RoutingCalls = Calls<typeof RoutingServiceService>

/** Calls to one agent. Each throws BerthError: the agent's own, `host_offline` or `agent_timeout`. */
export interface AgentClient {
  /** `listBackups` waits for the target, for about a minute. */
  readonly backups: Calls<typeof BackupServiceService>
  readonly guests: Calls<typeof GuestServiceService>
  readonly settings: SettingsCalls
  readonly routing: RoutingCalls
  /** `getOperation` waits for a short time only. */
  readonly operations: OperationCalls
}

/** What the gateway itself decides on creating a guest, and what the agent answered. */
export interface GuestCreation {
  readonly hostId: string
  readonly response: SubmitOperationResponse
}

export interface GuestCreationRequest {
  /** Repeated with the same one: the same host, id and uuid, and the agent's first answer. */
  readonly operationId: string
  readonly name: string
  readonly spec: GuestSpec
  readonly requestedBy: string
  /** Default: the host with most room. */
  readonly hostId?: string
}

export interface JoinToken {
  readonly token: string
  readonly expiresAtMs: number
  /** To be run on the host. */
  readonly command: string
}

/** Changes to the fleet's hosts; each throws `not_found` for an unknown host, `store_unavailable` without Redis. */
export interface HostAdmin {
  /**
   * @param operationId a uuid; the same operation again: the same host. Default: one of its own
   * @throws {BerthError} `invalid_field`, `name_conflict`, `address_in_use`; `invalid_state` when the operation's host was removed
   */
  createHost(host: { name: string; address: string }, operationId?: string): Promise<HostView>
  /** One-time; an earlier unused token of the host is void. */
  createJoinToken(hostId: string): Promise<JoinToken>
  /** @throws {BerthError} `invalid_field`, `name_conflict`, `address_in_use` */
  updateHost(
    hostId: string,
    change: { name?: string; address?: string; draining?: boolean },
  ): Promise<HostView>
  /** Its certificate is worth nothing from then on. @throws {BerthError} `invalid_state` while guests live there, unless `force` */
  removeHost(hostId: string, options: { force: boolean }): Promise<void>
}

export interface Fleet {
  readonly view: FleetView
  readonly hosts: HostAdmin
  /** The list of hosts has been read: before, guests may exist that the view has never heard of. */
  readonly isComplete: boolean
  /** @throws {BerthError} `not_found`, `host_offline` */
  agent(hostId: string): AgentClient
  /**
   * Chooses a host, reserves id, uuid and name across the fleet and has the agent journal the guest; what the
   * agent refuses is released again. Use `reached` before answering.
   * @throws {BerthError} `name_conflict`, `resource_exhausted`, `not_found` (host, template), `host_offline`
   */
  createGuest(request: GuestCreationRequest): Promise<GuestCreation>
  /** True where the operation is a creation that holds a reservation: an earlier attempt of a request made it. */
  isCreation(operationId: string): Promise<boolean>
  /** Of the view, or of an agent's journal where it is too old for the view. */
  findOperation(id: string): Promise<OperationView | undefined>
  /**
   * Resolves when the view shows the operation's end, or after `timeoutMs`.
   * @returns as it is then; undefined: the view has it not
   */
  ended(operationId: string, timeoutMs: number): Promise<OperationView | undefined>
  /** Read your own writes: resolves when the view has reached the host's revision, or after the call timeout. */
  reached(hostId: string, revision: number): Promise<void>
}
