import type { SecurityServiceService } from '../../proto/gen/berth/agent/v1/security.js'
import type { BackupServiceService } from '../../proto/gen/berth/agent/v1/backup.js'
import type { ServiceError } from '@grpc/grpc-js'
import type { ConsoleRequest, ConsoleResponse } from '../../shared/console-frames.js'
import type { GuestServiceService, GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostServiceService } from '../../proto/gen/berth/agent/v1/host.js'
import type { ImageServiceService, Template } from '../../proto/gen/berth/agent/v1/image.js'
import type { GuestSettingsServiceService, RoutingServiceService } from '../../proto/gen/berth/agent/v1/network.js'
import type { OperationServiceService, SubmitOperationResponse } from '../../proto/gen/berth/agent/v1/operation.js'
import type { InstallHosts } from '../join/installer.js'
import type { AlertView, GuestView, HostView, OperationView } from './reported.js'
import type { FleetChanges } from './fleet-changes.js'
import type { GuestCounts } from './guest-status.js'
import type { GuestBlock } from './lists/guest-blocks.js'
import type { GuestField } from './lists/guest-table.js'
import type { OperationField } from './lists/operation-table.js'
import type { Selectable } from '../lists/table.js'

export type { AlertView, GuestView, HostView, OperationView }

export interface TemplateView {
  readonly hostId: string
  readonly template: Template
}

/** Everything that the gateway knows about the fleet, in memory; no method does I/O. */
export interface FleetView {
  readonly changes: FleetChanges
  /** Differs after any change of what a guest list shows; for caches and ETags. */
  readonly guestsVersion: number
  /** Ordered by id. */
  guests(): Iterable<GuestView>
  guestsOf(hostId: string): Iterable<GuestView>
  /** For pages of sorted and filtered guests. */
  readonly guestTable: Selectable<GuestView, GuestField>
  readonly guestBlocks: readonly GuestBlock[]
  /** Guests of one host; default: of all. */
  countGuests(hostId?: string): GuestCounts
  /** By numeric id, uuid or name. */
  findGuest(ref: string): GuestView | undefined
  findGuestByName(name: string): GuestView | undefined
  /** Newest first; at most `listedOperations` per host. */
  operations(): OperationView[]
  /** Operations on one host, unordered. */
  operationsOn(hostId: string): Iterable<OperationView>
  /** For pages of sorted and filtered operations. */
  readonly operationTable: Selectable<OperationView, OperationField>
  /** Operations on these guests, newest first. */
  operationsOf(guestUuids: Iterable<string>): OperationView[]
  findOperation(id: string): OperationView | undefined
  templates(): Iterable<TemplateView>
  /** Alerts of one host; default: of all. */
  alerts(hostId?: string): AlertView[]
  hosts(): HostView[]
  countHosts(): { readonly total: number; readonly online: number }
  findHost(id: string): HostView | undefined
}

/** A service's calls, as promises. */
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
export type ImageCalls = Calls<typeof ImageServiceService>
export type RoutingCalls = Calls<typeof RoutingServiceService>

/** The connection of a console to an agent; `start` is sent first. */
export interface ConsoleStream {
  /** True while output of the agent is paused. */
  readonly isPaused: boolean
  send(message: ConsoleRequest): void
  /** Ends it after sending pending data. */
  end(): void
  /** Ends it at once. */
  cancel(): void
  pause(): void
  resume(): void
}

/** Messages of an agent about a console. */
export type ConsoleOutput = Exclude<ConsoleResponse, { $case: 'refusal' }>

export interface ConsoleListener {
  onMessage(message: ConsoleOutput): void
  /** Called once. @param error see `fromServiceError` */
  onEnd(error: ServiceError): void
}

export type ConsoleOpener = (listener: ConsoleListener) => ConsoleStream

/**
 * Calls to one agent. Each throws a BerthError: that of the agent, `host_offline` or `agent_timeout`. A call waits for
 * a connection while the host is online, and fails as soon as the host is offline.
 */
export interface AgentClient {
  /** `listBackups` waits for the target, for about a minute. */
  readonly backups: Calls<typeof BackupServiceService>
  readonly guests: Calls<typeof GuestServiceService>
  readonly settings: SettingsCalls
  readonly routing: RoutingCalls
  readonly images: ImageCalls
  readonly hosts: Calls<typeof HostServiceService>
  readonly security: Calls<typeof SecurityServiceService>
  /** Waits for a connection; the returned function opens a console on it. */
  consoleOpener(): Promise<ConsoleOpener>
  /** `getOperation` waits for a short time only. */
  readonly operations: OperationCalls
}

/** The chosen host, and the agent's answer. */
export interface GuestCreation {
  readonly hostId: string
  readonly response: SubmitOperationResponse
}

export interface GuestCreationRequest {
  /** A repeat with the same id gets the same host, id and uuid, and the agent's first answer. */
  readonly operationId: string
  readonly name: string
  readonly spec: GuestSpec
  readonly requestedBy: string
  /** Default: the host with the most room. */
  readonly hostId?: string
}

/** Places for guests that are about to be created; they count as used. */
export interface HeldRoom {
  /**
   * Chooses hosts for one guest in addition to those before it; its creation uses them. @throws {BerthError} as
   * `createGuest` without room
   */
  hold(request: GuestCreationRequest): void
  /** Returns places that no creation has used. */
  release(): void
}

export interface JoinToken {
  readonly token: string
  readonly expiresAtMs: number
  /** host:port of the join endpoint, as the token has it. */
  readonly address: string
  /** Command to run on the host. */
  readonly command: string
}

/** Absent fields stay unchanged. */
export interface HostChange {
  readonly name?: string
  readonly address?: string
  readonly draining?: boolean
  /** As returned by `parsePublicAddress`; "": derived from the host. */
  readonly publicAddress?: string
}

/** Changes the fleet's hosts; each method throws `not_found` for an unknown host, `store_unavailable` without Redis. */
export interface HostAdmin extends InstallHosts {
  /**
   * @param operationId a uuid; a repeat with it gets the same host. Default: a new one
   * @throws {BerthError} `invalid_field`, `name_conflict`, `address_in_use`; `invalid_state` when the operation's host
   * was removed
   */
  createHost(host: { name: string; address?: string; publicAddress?: string }, operationId?: string): Promise<HostView>
  /** Makes a one-time token; voids an earlier unused one of the host. */
  createJoinToken(hostId: string): Promise<JoinToken>
  /** @throws {BerthError} `invalid_field`, `name_conflict`, `address_in_use` */
  updateHost(hostId: string, change: HostChange): Promise<HostView>
  /**
   * Removes the host and revokes its certificate.
   * @throws {BerthError} `invalid_state` while guests live there, unless `force`
   */
  removeHost(hostId: string, options: { force: boolean }): Promise<void>
}

/** An operation that an agent has accepted. */
export interface OrderedOperation {
  readonly hostId: string
  readonly operationId: string
}

/** The gateway's access to all hosts: what they report, and calls to their agents. */
export interface Fleet {
  readonly view: FleetView
  readonly hosts: HostAdmin
  /** True once the list of hosts has been read: before that, the view may lack guests. */
  readonly isComplete: boolean
  /** @throws {BerthError} `not_found`, `host_offline` */
  agent(hostId: string): AgentClient
  /**
   * Chooses a host, reserves id, uuid and name across the fleet, and has the agent journal the guest; a refusal of the
   * agent releases the reservation. Await `reached` before answering.
   * @throws {BerthError} `name_conflict`, `resource_exhausted`, `not_found` (host, template), `host_offline`
   */
  createGuest(request: GuestCreationRequest): Promise<GuestCreation>
  /** Places for several guests, all of them reserved before the first is created. */
  holdRoom(): HeldRoom
  /** True if the operation is a creation with a reservation, made by an earlier attempt of the request. */
  isCreation(operationId: string): Promise<boolean>
  /** Finds an operation in the view, or in an agent's journal if it is too old for the view. */
  findOperation(id: string): Promise<OperationView | undefined>
  /**
   * Resolves when the view shows the operation's end, its host goes offline, or after `timeoutMs`.
   * @returns the operation as it is then; undefined: the view does not have it
   */
  ended(operation: OrderedOperation, timeoutMs: number): Promise<OperationView | undefined>
  /**
   * Read your own writes: resolves when the view has reached the host's revision, the host is offline, or after the
   * call timeout.
   */
  reached(hostId: string, revision: number): Promise<void>
}
