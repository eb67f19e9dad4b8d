import type { PendingMove } from './plan-owner.js'

/** A stored reservation of id, uuid and name for a guest that exists or will be created. */
export interface Reservation {
  readonly uuid: string
  readonly id: number
  readonly name: string
  readonly hostId: string
  /** Id of the operation that creates the guest. Empty: the guest is known only from a report of its agent. */
  readonly operationId: string
  readonly reservedAtMs: number
  /** Ownership generation: number of decisions so far about the host that owns the guest. Absent: 0. */
  readonly generation?: number
  /** Name that a rename has reserved. It replaces `name` when the guest's host reports it. Absent: no rename. */
  readonly newName?: string
  /** Time when `newName` was reserved. Absent if `newName` is absent, or was reserved by an earlier version. */
  readonly renamedAtMs?: number
  /** Position of the report from which `name` was taken. Absent: the guest was never renamed. */
  readonly namedAt?: ReportPosition
  /** Id of the failed host while `hostId` restores the guest. A failed restore does not free name and id. */
  readonly evacuatedFrom?: string
  /**
   * First host port of each mapping of a new guest, chosen by the gateway. A repeated creation sends the same ports.
   * Absent: the host chooses the ports.
   */
  readonly hostPorts?: readonly number[]
  /** Undecided move of the guest to another host. Absent: the guest is not moving. */
  readonly move?: PendingMove
}

/** Position of a report in the journal of its host. */
export interface ReportPosition {
  /** Identifies the host's journal. */
  readonly epoch: string
  readonly revision: number
}

/** Identity of a guest as its agent reports it. */
export interface GuestClaim {
  readonly uuid: string
  readonly id: number
  readonly name: string
  /** Ownership generation of the guest that the host knows (see `Reservation`). Absent: 0. */
  readonly generation?: number
  /** False if the host has a copy of the guest that it must not start. Absent: true. */
  readonly isOwner?: boolean
  readonly reportedAt?: ReportPosition
}

/** Ids, uuids and names of guests in the store. Reported guests can conflict with the stored guests. */
export interface StoredClaims {
  readonly byUuid: ReadonlyMap<string, Reservation>
  /** Uuids of guests by name in lower case. */
  readonly byName: ReadonlyMap<string, string>
  /** Uuids of guests by id. */
  readonly byId: ReadonlyMap<number, string>
  /** Last ownership generations of deleted guests, by uuid. Guests that never had another owner are absent. */
  readonly former?: ReadonlyMap<string, number>
}

export interface ClaimPlan {
  /** Identities of this host's guests that the store does not know yet. */
  readonly add: readonly GuestClaim[]
  /** Reservations of guests that have a new name. */
  readonly renamed: readonly Renaming[]
  /** Guests that do not belong to this host, and the reasons, by uuid of the guest. */
  readonly refused: ReadonlyMap<string, Refusal>
}

/** A reservation, and the new name of its guest. */
export interface Renaming {
  readonly before: Reservation
  readonly name: string
  readonly reportedAt?: ReportPosition | undefined
}

export interface Refusal {
  /** Why the guest does not belong to this host. */
  readonly reason: string
  /** Present generation. Set only if the host must learn it, because the host knows only an older generation. */
  readonly ownerGeneration?: number
}

/** True if the guest has exactly this reservation, so that nothing must be written or refused. */
export function isRegistered(hostId: string, { id, name }: GuestClaim, known: Reservation | undefined): boolean {
  return known?.hostId === hostId && known.id === id && known.name === name
}

/** Decides whether guests belong to this host. Guests that the store does not know belong to the reporting host. */
export function planClaims(hostId: string, claims: readonly GuestClaim[], held: StoredClaims): ClaimPlan {
  const names = new Map(held.byName)
  const ids = new Map(held.byId)
  const add: GuestClaim[] = []
  const renamed: Renaming[] = []
  const refused = new Map<string, Refusal>()
  for (const claim of claims) {
    const known = held.byUuid.get(claim.uuid)
    if (isOutdated(hostId, claim, known)) continue
    const deletedAt = known ? undefined : held.former?.get(claim.uuid)
    const reason = findProblem(hostId, claim, { known, deletedAt, names, ids })
    if (reason !== undefined) refused.set(claim.uuid, { reason, ...newerOwner(hostId, claim, { known, deletedAt }) })
    else if (known) {
      // If this host is not the owner, its copy of the guest can have an old name, so the name is ignored.
      if (known.name === claim.name || claim.isOwner === false) continue
      renamed.push({ before: known, name: claim.name, reportedAt: claim.reportedAt })
      names.set(claim.name.toLowerCase(), claim.uuid)
    } else {
      add.push(claim)
      names.set(claim.name.toLowerCase(), claim.uuid)
      ids.set(claim.id, claim.uuid)
    }
  }
  return { add, renamed, refused }
}

/**
 * True if the report is older than the guest's present name. A gateway that was paused can send an old report's claim
 * after another gateway has stored the new name.
 */
function isOutdated(hostId: string, { reportedAt }: GuestClaim, known: Reservation | undefined): boolean {
  const { namedAt } = known ?? {}
  if (known?.hostId !== hostId || !namedAt || namedAt.epoch !== reportedAt?.epoch) return false
  return reportedAt.revision < namedAt.revision
}

interface StoredGuest {
  readonly known: Reservation | undefined
  /** Generation in which the guest was deleted. Undefined: it exists, or is not known as deleted. */
  readonly deletedAt: number | undefined
}

/**
 * Finds an old copy of a guest that another host owns now, or owned when the guest was deleted. A host that has failed, or
 * whose disk was restored, has such copies.
 */
function newerOwner(
  hostId: string,
  { generation = 0 }: GuestClaim,
  { known, deletedAt = 0 }: StoredGuest,
): Pick<Refusal, 'ownerGeneration'> {
  const stored = known ? (known.generation ?? 0) : deletedAt
  // Hosts that do not own their copy must also learn the newest generation, to reject late messages with older ones.
  const isOutdated = known?.hostId !== hostId && generation < stored
  return isOutdated ? { ownerGeneration: stored } : {}
}

function findProblem(
  hostId: string,
  claim: GuestClaim,
  held: StoredGuest & { names: Map<string, string>; ids: Map<number, string> },
): string | undefined {
  const what = `guest ${claim.name} (${claim.id}, ${claim.uuid}) is not shown`
  if (!held.known && claim.isOwner === false) return `${what}: this host does not own it`
  if ((claim.generation ?? 0) < (held.deletedAt ?? 0)) return `${what}: it was deleted on another host`
  if (held.known && held.known.hostId !== hostId) return `${what}: it belongs to host ${held.known.hostId}`
  const nameOwner = held.names.get(claim.name.toLowerCase())
  if (nameOwner !== undefined && nameOwner !== claim.uuid) return `${what}: the name belongs to ${nameOwner}`
  const idOwner = held.ids.get(claim.id)
  if (idOwner !== undefined && idOwner !== claim.uuid) return `${what}: the id belongs to ${idOwner}`
  return undefined
}
