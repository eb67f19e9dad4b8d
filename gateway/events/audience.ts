import type { Guests, Principal } from '../access/principal.js'
import { ownNameOf, shownActor } from '../access/shown-actor.js'
import { coversScope } from '../access/scopes.js'
import type { FleetView } from '../fleet/contract.js'
import { eventKinds, kindOf, type EventContent, type EventKind } from './event.js'

/** For each kind of events: the scope that a caller needs, and whether sub-users may receive them. */
const rules: Readonly<Record<EventKind, { readonly scope: string; readonly subUsers: boolean }>> = {
  guest: { scope: 'container:read', subUsers: true },
  task: { scope: 'task:read', subUsers: true },
  host: { scope: 'host:read', subUsers: false },
  usage: { scope: 'host:read', subUsers: false },
  alert: { scope: 'security:read', subUsers: false },
  maintenance: { scope: 'container:read', subUsers: true },
}

/** Events that a caller may receive. Their data is limited to what the caller can read in other ways. */
export interface Audience {
  readonly kinds: ReadonlySet<EventKind>
  readonly guests: Guests
  /** Result of `ownNameOf`. */
  readonly ownName: string | undefined
}

/** @param wanted kinds that the caller requests; undefined: all kinds */
export function audienceOf(caller: Principal, wanted?: ReadonlySet<EventKind>): Audience {
  const kinds = eventKinds.filter((kind) => mayRead(caller, kind) && (wanted?.has(kind) ?? true))
  return { kinds: new Set(kinds), guests: caller.guests, ownName: ownNameOf(caller) }
}

export function scopeOfKind(kind: EventKind): string {
  return rules[kind].scope
}

function mayRead(caller: Principal, kind: EventKind): boolean {
  const { scope, subUsers } = rules[kind]
  return coversScope(caller.scopes, scope) && (subUsers || caller.subUser === undefined)
}

export function sameAudience(a: Audience, b: Audience): boolean {
  return sameSet(a.kinds, b.kinds) && sameGuests(a.guests, b.guests) && a.ownName === b.ownName
}

/** True if the listener may not see the name of the caller in the event. */
export function hidesActor({ ownName }: Audience, { actor = '' }: EventContent): boolean {
  return shownActor(actor, ownName) !== actor
}

function sameGuests(a: Guests, b: Guests): boolean {
  if (a === 'all' || b === 'all') return a === b
  return sameSet(a, b)
}

function sameSet<T>(a: ReadonlySet<T>, b: ReadonlySet<T>): boolean {
  return a === b || (a.size === b.size && [...a].every((item) => b.has(item)))
}

/** Returns a cache key, equal for listeners with the same events. `undefined`: a listener restricted to containers. */
export function sharedNameOf({ kinds, guests }: Audience): string | undefined {
  return guests === 'all' ? [...kinds].sort().join() : undefined
}

/**
 * True if the listener may receive an event. Some events concern all containers of a host. They report that the host
 * became reachable or unreachable (`guest.host`), or announce maintenance. Listeners restricted to containers get such
 * an event if one of their containers is on the host.
 */
export function isFor(audience: Audience, event: EventContent, view: Pick<FleetView, 'findGuest'>): boolean {
  const kind = kindOf(event.type)
  if (!audience.kinds.has(kind)) return false
  if (audience.guests === 'all') return true
  if (event.customer === null) return false
  if (event.type === 'guest.host' || kind === 'maintenance') {
    for (const uuid of audience.guests) if (view.findGuest(uuid)?.hostId === event.hostId) return true
    return false
  }
  return kind === 'host' || kind === 'usage' || audience.guests.has(event.guestUuid)
}
