import type { FleetRotation } from '../rotation/rotation.js'
import type { UniquePorts } from './port-contract.js'
import type { Fence } from '../../shared/fence.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type { InstallHosts } from '../join/installer.js'
import type { Relocation } from './move-contract.js'
import type { AlertView, GuestView, HostView, OperationView } from './reported.js'
import type { FleetChanges } from './fleet-changes.js'
import type { DrainResult } from './host-record.js'
import type { HostWindow } from './host-windows.js'
import type { Allocation, Ratios } from '../../shared/allocation.js'
import type { GuestCounts } from './guest-status.js'
import type { GuestSize } from './host-totals.js'
import type { GuestBlock } from './lists/guest-blocks.js'
import type { GuestField } from './lists/guest-table.js'
import type { OperationField } from './lists/operation-table.js'
import type { Queryable } from '../lists/table.js'
import type { AgentClient } from './agent-contract.js'
import type { GuestCreation, GuestCreationRequest, HeldRoom } from './creation-contract.js'

export type { AlertView, GuestView, HostView, OperationView }

export interface TemplateView {
  readonly hostId: string
  readonly template: Template
}

/** The gateway's knowledge about the fleet, in memory. Its methods do no I/O. */
export interface FleetView {
  readonly changes: FleetChanges
  /** Version of the data that lists of guests show, for caches and ETags. It changes with each change of this data. */
  readonly guestsVersion: number
  /** All guests, ordered by id. */
  guests(): Iterable<GuestView>
  guestsOf(hostId: string): Iterable<GuestView>
  /** Sorts and filters guests for lists. */
  readonly guestTable: Queryable<GuestView, GuestField>
  readonly guestBlocks: readonly GuestBlock[]
  /** Counts the guests of one host. Without `hostId`, counts the guests of all hosts. */
  countGuests(hostId?: string): GuestCounts
  /** Returns the resources of a host that are allocated to its guests. */
  allocationOf(hostId: string): Allocation
  /** Returns the most common size of guests. `undefined`: there are no guests. */
  commonSize(): GuestSize | undefined
  /** Finds a guest by id, uuid or name. */
  findGuest(ref: string): GuestView | undefined
  findGuestByName(name: string): GuestView | undefined
  /** Returns the newest operations, at most `listedOperations` per host, newest first. */
  operations(): OperationView[]
  /** Operations of one host, in no particular order. */
  operationsOn(hostId: string): Iterable<OperationView>
  /** Sorts and filters operations for lists. */
  readonly operationTable: Queryable<OperationView, OperationField>
  /** Operations of some guests, newest first. */
  operationsOf(guestUuids: Iterable<string>): OperationView[]
  findOperation(id: string): OperationView | undefined
  /** Returns the newest operation of an action on a guest. */
  latestOperation(guestUuid: string, action: string): OperationView | undefined
  templates(): Iterable<TemplateView>
  /** Returns the alerts of one host. Without `hostId`, returns the alerts of all hosts. */
  alerts(hostId?: string): AlertView[]
  hosts(): HostView[]
  countHosts(): { readonly total: number; readonly online: number }
  findHost(id: string): HostView | undefined
}

export interface JoinToken {
  readonly token: string
  readonly expiresAtMs: number
  /** host:port of the join endpoint. The token contains this address, too. */
  readonly address: string
  /** Command to run on the new host. */
  readonly command: string
}

/** A change of a host's settings. Absent fields stay unchanged. */
export interface HostChange {
  readonly name?: string
  readonly address?: string
  readonly draining?: boolean
  /** "": the host belongs to no group. */
  readonly group?: string
  readonly labels?: readonly string[]
  /** Public address as returned by `parsePublicAddress`. "": Berth derives the address. */
  readonly publicAddress?: string
}

/** Changes the hosts of the fleet. All methods throw `store_unavailable`, and `not_found` for an unknown host. */
export interface HostAdmin extends InstallHosts {
  /**
   * Creates a host.
   * @param operationId uuid; a repeated call with this uuid returns the same host. Default: a new uuid
   * @throws {BerthError} `invalid_field`, `name_conflict`, `address_in_use`, or `invalid_state` if the host of the
   * operation was removed
   */
  createHost(host: { name: string; address?: string; publicAddress?: string }, operationId?: string): Promise<HostView>
  /** Creates a one-time token. An unused earlier token of the host becomes invalid. */
  createJoinToken(hostId: string): Promise<JoinToken>
  /** @throws {BerthError} `invalid_field`, `name_conflict`, `address_in_use` */
  updateHost(hostId: string, change: HostChange): Promise<HostView>
  /** Records the result of a drain that has ended. */
  recordDrain(hostId: string, drained: DrainResult): Promise<void>
  /** Records changed maintenance windows of the host (see `mergeWindows`). */
  recordMaintenance(hostId: string, changed: readonly HostWindow[], nowMs: number): Promise<void>
  /**
   * Removes the host and revokes its certificates.
   * @throws {BerthError} `invalid_state` if the host has guests and `force` is false
   */
  removeHost(hostId: string, options: { force: boolean }): Promise<void>
}

export interface UpgradeRequest {
  /** Id of the upgrade. A request with an id that the host has seen before starts nothing. */
  readonly id: string
  /** True: installs the previous version, whose packages the host retains. */
  readonly rollback: boolean
  /** Version to install. Default: the version of this gateway. Ignored for a rollback. */
  readonly version?: string
  /** Proof that the calling gateway holds the lease for a fleet upgrade. Absent if only this host is upgraded. */
  readonly fence?: Fence
}

/** Upgrades of agents. The fleet view shows their progress. */
export interface HostUpgrades {
  /** The version to which hosts are upgraded by default. It is the version of this gateway. */
  readonly version: string
  /**
   * Starts an installation of the agent on a host. The gateway must have packages of the requested version. A rollback
   * installs the host's previous version.
   * @throws {BerthError} `not_found`, `host_offline`, `upgrade_unsupported`, `upgrade_running`, `no_previous_version`,
   * `packages_missing`, `packages_outdated`
   */
  start(hostId: string, request: UpgradeRequest): Promise<'started' | 'up_to_date'>
  /** @throws {BerthError} `packages_missing`, `packages_outdated` */
  checkPackages(): Promise<void>
  /** Ends upgrades of hosts that have not reported for a long time. */
  endSilent(nowMs: number): Promise<void>
}

/** An operation that an agent has accepted. */
export interface OrderedOperation {
  readonly hostId: string
  readonly operationId: string
}

/** The gateway's access to all hosts: their reported state, and calls to their agents. */
export interface Fleet {
  readonly view: FleetView
  readonly hosts: HostAdmin
  readonly upgrades: HostUpgrades
  readonly rotation: FleetRotation
  /** Overcommit ratios. The allocated resources of a host may be this many times its capacity. */
  readonly overcommit: Ratios
  /** Host ports that are unique in the fleet while a setting is on. */
  readonly ports: UniquePorts
  /** True after the list of hosts was read from the store. Before that, guests can be missing in the fleet view. */
  readonly isComplete: boolean
  /** Returns the calls to the agent of a host. @throws {BerthError} `not_found`, `host_offline` */
  agent(hostId: string): AgentClient
  /**
   * Waits for hosts that are not connected yet, but are expected to connect soon after the start of this
   * gateway. Later calls resolve immediately.
   * @param guestRef id, uuid or name of a guest. If the fleet view has the guest, the call only waits for the guest's
   * host. Otherwise it waits for all hosts. From 10 s after the start, one connected host is enough.
   */
  expectedConnections(guestRef?: string): Promise<void>
  /**
   * Finds a guest that the view lacks because this gateway has no report of the guest's host. For example, another
   * gateway has created the guest.
   * @param ref id, uuid or name @throws {BerthError} `store_unavailable`, `host_offline`, `agent_timeout`
   */
  findUnreported(ref: string): Promise<{ readonly uuid: string; readonly hostName: string } | undefined>
  /**
   * Chooses a host, reserves id, uuid and name for the guest, and submits the creation to the agent. If the agent
   * rejects the creation, the reservation is freed. Await `reached` before answering the client.
   * @throws {BerthError} `name_conflict`, `resource_exhausted`, `host_offline`, `not_found` (host or template)
   */
  createGuest(request: GuestCreationRequest): Promise<GuestCreation>
  /**
   * Reserves another name for a guest, until its host reports the name. Await this before the host changes the name.
   * @throws {BerthError} `name_conflict`, `guest_moving`, `not_found`, `store_unavailable`
   */
  reserveName(uuid: string, name: string): Promise<void>
  /** Frees a name that was reserved with `reserveName`, because the host refused it. */
  releaseName(uuid: string, name: string): Promise<void>
  /** Brings guests to other hosts. */
  readonly relocation: Relocation
  /**
   * Reserves resources for several guests before the first guest is created. If no host has room for one of the guests,
   * reserves nothing.
   * @param attempt called for each guest with its index; must call `place`, and may replace the error of `place`
   * @throws {BerthError} as `createGuest` if no host can run one of the guests
   */
  holdRoom(
    requests: readonly GuestCreationRequest[],
    attempt: (at: number, place: () => void) => void,
  ): Promise<HeldRoom>
  /** True if room is reserved for guests that the host does not report yet. @throws {BerthError} `store_unavailable` */
  isExpecting(hostId: string): Promise<boolean>
  /** True if the operation is a creation for which an id and a name of the guest have already been reserved. */
  isCreation(operationId: string): Promise<boolean>
  /** Finds an operation in the fleet view, or in the agents' journals if the fleet view no longer contains it. */
  findOperation(id: string): Promise<OperationView | undefined>
  /**
   * Waits until the fleet view shows that the operation has ended, its host goes offline, or `timeoutMs` have passed.
   * @returns the operation as the view shows it after the wait; undefined: the view does not contain it
   */
  ended(operation: OrderedOperation, timeoutMs: number): Promise<OperationView | undefined>
  /**
   * Waits until the fleet view contains this revision of the host's journal, the host goes offline, or the call timeout
   * has passed. Then waits at most about a second until the views of the other gateways contain the revision, too. A
   * caller can thus read the result of its own change at any gateway.
   */
  reached(hostId: string, revision: number): Promise<void>
}
