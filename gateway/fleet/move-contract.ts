import type { ExpectGuestResponse } from '../../proto/gen/berth/agent/v1/move.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { SubmitOperationResponse } from '../../proto/gen/berth/agent/v1/operation.js'
import type { Lease } from '../store/lease.js'
import type { GuestView } from './reported.js'

export interface GuestMoveRequest {
  /** Id of the move. A repeated request with this id gets the same operation. */
  readonly operationId: string
  readonly guest: GuestView
  /** Target of the move. Default: the host with the most free resources. */
  readonly toHostId?: string | undefined
  /** Hosts that are chosen only if no other host can take the guest. */
  readonly refusedBy?: readonly string[]
  /** Uuids of guests that leave the same host. Guests that must stay together can leave only if all of them leave. */
  readonly alsoMoving?: readonly string[]
  /** Limit of the transfer in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
  /** True if the guest is shut down before its disk is copied. */
  readonly offline: boolean
  /** Maximum expected downtime in ms of a live move, while the last memory is copied. `undefined`: the default. */
  readonly maxDowntimeMs?: number | undefined
  readonly requestedBy: string
}

/** Backup from which a guest of a failed host is restored. */
export interface EvacuatedBackup {
  readonly targetId: string
  readonly backupId: string
  readonly createdAtMs: number
}

/** Planned evacuation of a guest of a failed host, or the reason why the guest cannot be restored. */
export interface PlannedEvacuation extends PlannedMove {
  /** Newest backup of the guest. Absent if the guest has no backup. */
  readonly backup?: EvacuatedBackup
  /** Complete copy of the guest on the host of its warm standby. Absent: no complete copy exists. */
  readonly standby?: UsableStandby
  /** True if the guest is started from the standby, which is newer than the backup. */
  readonly isFromStandby: boolean
}

export interface EvacuationRequest {
  /** Id of the restore. A repeated request with this id orders the same restore. */
  readonly operationId: string
  readonly uuid: string
  /** Id of the failed host. */
  readonly hostId: string
  /** Hosts that are chosen only if no other host can take the guest. */
  readonly refusedBy: readonly string[]
  readonly requestedBy: string
  /** Returns a backup target with its secrets. */
  readonly openTarget: (id: string) => Promise<BackupTarget>
}

/** An old copy of a guest on a host that does not own the guest any more. */
export interface OldCopy {
  /** The guest as its former host reports it. */
  readonly guest: Guest
  /** The guest on the host that owns it. Undefined: no host of the fleet has it. */
  readonly owner: GuestView | undefined
  /** True if no host that is online has a working copy. The old copy is then possibly the only one. */
  readonly isOnlyCopy: boolean
}

export interface DeleteCopyRequest {
  /** Id of the deletion. A repeated request with this id gets the same operation. */
  readonly operationId: string
  readonly hostId: string
  readonly uuid: string
  readonly requestedBy: string
  /** True: deletes the copy even if no host that is online has the guest. */
  readonly force: boolean
}

export interface BegunEvacuation {
  /** Id of the restore. It differs from the requested id if an earlier restore of the guest has not ended. */
  readonly operationId: string
  readonly toHostId: string
}

/** True for a virtual machine that keeps running during its move. */
export function movesLive({ guest }: GuestView, offline: boolean): boolean {
  return guest.virtualization === 'kvm' && guest.status === 'running' && !offline
}

/** Target of a move, and the guest's addresses and ports there. */
export interface GuestMovePlan {
  readonly toHostId: string
  readonly network: ExpectGuestResponse
}

/** True if the guest is reachable at other addresses or ports after its move to the planned target. */
export function changesAddresses({ guest }: GuestView, { network }: GuestMovePlan): boolean {
  const differs = (before: readonly string[], after: readonly string[]): boolean =>
    before.some((address, index) => address !== (after[index] ?? ''))
  // Mapped ports are reached at the address of the host, so their address changes with the host.
  return (
    guest.portMappings.length > 0 ||
    differs(guest.publicIpv4s, network.publicIpv4s) ||
    differs(guest.ipv6Addresses, network.ipv6Addresses)
  )
}

/** Planned target of a guest, or the reason why the guest cannot move. */
export interface PlannedMove {
  readonly guest: GuestView
  /** Id of the target host. Empty if the guest cannot move. */
  readonly toHostId: string
  /** Reason why the guest cannot move. Empty if the guest can move. */
  readonly message: string
}

/** Load of a host before and after a move. The load is the allocated fraction of the host's most allocated resource. */
export interface LoadChange {
  readonly before: number
  readonly after: number
}

export interface Suggestion {
  readonly guest: GuestView
  /** `rule`: the guest is on a host that its rules forbid. `load`: the move evens out the load of two hosts. */
  readonly reason: 'rule' | 'load'
  /** Code of the broken rule. Empty if the reason is `load`. */
  readonly code: string
  /** Id of the target. Empty: no host can take the guest. */
  readonly toHostId: string
  /** Why no host can take the guest. Empty: a host can. */
  readonly message: string
  readonly from: LoadChange
  /** Load of the target. Absent: no host can take the guest. */
  readonly to?: LoadChange
}

/** Restricts suggested moves. */
export interface SuggestionChoice {
  /** Reasons of the suggestions. */
  readonly reasons: readonly Suggestion['reason'][]
  /** Decrease of the higher load of its two hosts that a move for `load` must achieve. 1 means fully allocated. */
  readonly leastGain: number
  /** Greatest number of suggestions of each kind. */
  readonly most: number
  /** Throws if the guest must not move. */
  readonly refuse: (guest: GuestView) => void
}

export interface GuestMoves {
  /** Plans the move of a guest to another host, and changes nothing. @throws {BerthError} as `begin` */
  check(request: Pick<GuestMoveRequest, 'guest' | 'toHostId' | 'offline'>): Promise<GuestMovePlan>
  /**
   * Plans moves of several guests to the hosts with the most free resources, as if they moved one after another.
   * Changes nothing.
   */
  planAll(guests: readonly GuestView[]): Promise<PlannedMove[]>
  /** Suggests moves that fulfill broken placement rules or even out the load of the hosts. Changes nothing. */
  suggest(choice?: SuggestionChoice): Promise<Suggestion[]>
  /**
   * Begins to move a guest to another host. The source's operation shows the progress.
   * @throws {BerthError} `not_found`, `unsupported`, `invalid_state`, `guest_moving`, `move_unsupported`,
   * `offline_required`, `resource_exhausted`, `name_conflict`, `host_offline`
   */
  begin(request: GuestMoveRequest): Promise<GuestMovePlan & { readonly response: SubmitOperationResponse }>
  /**
   * True if the store has this move. It is stored before its operation begins, and until both hosts know its end.
   * @throws {BerthError} `store_unavailable`
   */
  isStored(move: { readonly operationId: string; readonly uuid: string }): Promise<boolean>
}

export interface GuestEvacuations {
  /** Plans the restore of guests of a failed host on other hosts, from their newest backups. Changes nothing. */
  planAll(guests: readonly GuestView[]): Promise<PlannedEvacuation[]>
  /**
   * Makes another host the owner of a guest whose host has failed. The new owner restores the guest from its newest
   * backup. If a restore of the guest has begun already, orders this restore again.
   * @throws {BerthError} `invalid_state` if the host is online, `backup_missing`, `guest_moving`, `guest_busy`,
   * `resource_exhausted`, `agent_outdated`, `host_offline`
   */
  begin(request: EvacuationRequest): Promise<BegunEvacuation>
}

/** Old copies of guests on hosts that do not own them any more, such as a failed host that has returned. */
export interface OldCopyAdmin {
  list(hostId: string): OldCopy[]
  /**
   * Orders the deletion of an old copy. The operation of the host shows the progress.
   * @throws {BerthError} `not_found`, `guest_moving`, `guest_busy`, `invalid_state` if no host that is online has a working
   * copy and `force` is false, `agent_outdated`, `host_offline`
   */
  delete(request: DeleteCopyRequest): Promise<void>
}

/** Id of a standby, and the host of its copy. */
export interface StandbyRef {
  readonly standbyId: string
  readonly hostId: string
}

/** A standby as an administrator has set it. */
export interface StandbySettings extends StandbyRef {
  readonly intervalMinutes: number
  /** Limit of the transfer in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
}

/** Settings that remove the standby of a guest. */
export const noStandby: StandbySettings = { standbyId: '', hostId: '', intervalMinutes: 0, bandwidthMbps: 0 }

/** A complete copy from which a guest of a failed host can be started. */
export interface UsableStandby extends StandbyRef {
  /** Time in ms of the disk state in the copy. */
  readonly takenAtMs: number
}

/** Warm standbys of guests on other hosts. */
export interface StandbyAdmin {
  /**
   * Checks that a host can store a copy of the guest.
   * @throws {BerthError} `unsupported`, `invalid_field`, `not_found`, `agent_outdated`, `host_offline`, `invalid_state`,
   * `guest_moving`, `resource_exhausted`
   */
  refuseUnfit(guest: GuestView, hostId: string): Promise<void>
  /**
   * Records that an administrator has set this standby. Increments are only ordered for recorded standbys. A gateway
   * sets a recorded standby again when the guest has moved.
   */
  record(guest: GuestView, standby: StandbySettings): Promise<void>
  /** Finds the recorded standby of a guest. A guest that has moved possibly does not have this standby yet. */
  findRecorded(uuid: string): Promise<StandbySettings | undefined>
  /** Runs `change` without the record of the guest's standby. If `change` fails, the record is restored. */
  withdraw(uuid: string, change: () => Promise<void>): Promise<void>
  /** Removes the copy of a standby, now or later. Never rejects. */
  forget(uuid: string, standby: StandbyRef): Promise<void>
}

/** Brings guests to other hosts: by a move, or from a backup if their host has failed. */
export interface Relocation {
  readonly moves: GuestMoves
  readonly evacuations: GuestEvacuations
  readonly oldCopies: OldCopyAdmin
  readonly standbys: StandbyAdmin
  /** Orders the increments of standbys. */
  readonly keeper: { readonly lease: Lease }
}
