import { addAllocation, type Allocation } from '../../../shared/allocation.js'
import type { PlacementRules } from '../../../shared/placement-rules.js'
import type { ReservedPorts } from './plan-ports.js'

/** Resources of a host that are reserved for a guest, until every gateway has the host's report about the guest. */
export interface ReservedRoom {
  readonly hostId: string
  readonly limits: Allocation
  /** Rules of the guest that concern other guests. Absent: it has none. */
  readonly rules?: Pick<PlacementRules, 'spread' | 'together'>
  /** Uuid of the guest. Absent: not chosen yet. */
  readonly uuid?: string
  /** Host ports that no other guest of the fleet may get, as long as host ports are unique. Absent: none. */
  readonly ports?: ReservedPorts
  /** Time in ms since 1970 (steady clock) at which the reservation ends, even if its gateway has died. */
  readonly untilMs: number
  /** Lifetime in ms. It limits `untilMs` if the reserving gateway's clock is ahead. Default: `roomLifetimeMs`. */
  readonly lifetimeMs?: number
}

/** True if the reservation only has host ports for a new mapping of an existing guest. */
export function isOfMapping({ uuid, ports }: ReservedRoom): boolean {
  return uuid === undefined && ports?.holder !== undefined
}

/** Reservations by operation id. */
export type ReservedRooms = ReadonlyMap<string, ReservedRoom>

/** Changes of reservations by operation id. undefined: the reservation is removed. */
export type RoomChanges = ReadonlyMap<string, ReservedRoom | undefined>

/** Lifetime in ms of a reservation. A creation takes seconds. */
export const roomLifetimeMs = 120_000
/** Time in ms for which a reservation stays after one gateway shows its guest. All gateways show the guest by then. */
export const roomSettleMs = 5000

export interface RoomFacts {
  /** Earliest possible present time in ms since 1970. The clock may have jumped. */
  readonly nowMs: number
  /** Latest possible present time in ms since 1970. */
  readonly latestMs: number
  /** True if this gateway's view counts the guest as a guest of the host. */
  readonly isShown: (hostId: string, uuid: string) => boolean
}

export interface RoomPlan {
  /** Reservations that count as used resources of their hosts, in addition to the guests in the fleet view. */
  readonly counted: readonly ReservedRoom[]
  /**
   * Changes to store. Shortens reservations of guests that hosts report, and removes expired reservations. If the clock
   * of a reserving gateway is ahead, its reservations would end too late. They are shortened, too.
   */
  readonly changes: RoomChanges
}

/**
 * Decides which reservations this gateway counts. Before a host has reported a guest to this gateway, the guest's
 * reservation counts. After the report, the guest counts instead.
 */
export function planRooms(rooms: ReservedRooms, { nowMs, latestMs, isShown }: RoomFacts): RoomPlan {
  const counted: ReservedRoom[] = []
  const changes = new Map<string, ReservedRoom | undefined>()
  for (const [id, room] of rooms) {
    const { hostId, uuid, untilMs } = room
    const isCounted = untilMs > nowMs && (uuid === undefined || !isShown(hostId, uuid))
    if (isCounted) counted.push(room)
    const next = isCounted ? limitLifetime(room, latestMs) : planSettled(room, nowMs)
    if (untilMs <= nowMs) changes.set(id, undefined)
    else if (next.untilMs < untilMs) changes.set(id, next)
  }
  return { counted, changes }
}

function limitLifetime(room: ReservedRoom, nowMs: number): ReservedRoom {
  return { ...room, untilMs: Math.min(room.untilMs, nowMs + (room.lifetimeMs ?? roomLifetimeMs)) }
}

/** Shortens the reservation of a guest that its host reports. Gateways without the report still count it. */
export function planSettled(room: ReservedRoom, nowMs: number): ReservedRoom {
  return { ...room, untilMs: Math.min(room.untilMs, nowMs + roomSettleMs) }
}

/** Sums the reserved resources of each host, by host id. */
export function sumRooms(rooms: readonly ReservedRoom[]): ReadonlyMap<string, Allocation> {
  const sums = new Map<string, Allocation>()
  for (const { hostId, limits } of rooms) sums.set(hostId, addAllocation(limits, sums.get(hostId)))
  return sums
}
