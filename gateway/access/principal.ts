import type { GuestView } from '../fleet/contract.js'

/** Guests by uuid; an empty set is none at all. */
export type Guests = 'all' | ReadonlySet<string>

/**
 * Who calls, whatever proved it. A credential (a key, later a session) is turned into one of these, and nothing
 * behind the authenticator asks for more.
 */
export interface Principal {
  readonly kind: 'key'
  /** Unique over all kinds: `key:12`. What is kept per caller (limits, Idempotency-Keys) is kept under it. */
  readonly ref: string
  /** Of the API key it calls with; what it makes with it is bounded by that key. */
  readonly keyId: number
  /** As shown in logs, and as who ordered a task: `api:<key name>`. */
  readonly user: string
  /** Scopes and wildcards. */
  readonly scopes: readonly string[]
  readonly guests: Guests
}

/** True for a caller for whom only some guests exist. */
export function isBound(caller: Principal): boolean {
  return caller.guests !== 'all'
}

export function maySee(caller: Principal, guestUuid: string): boolean {
  return caller.guests === 'all' || caller.guests.has(guestUuid)
}

/** The guests a caller may see, in no order; one that is bound pays for its own alone. */
export function guestsOf(
  caller: Principal,
  view: { guests(): Iterable<GuestView>; findGuest(uuid: string): GuestView | undefined },
): Iterable<GuestView> {
  if (caller.guests === 'all') return view.guests()
  return [...caller.guests].flatMap((uuid) => view.findGuest(uuid) ?? [])
}
