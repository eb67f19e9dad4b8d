import type { GuestView } from '../fleet/contract.js'

/** Guests by uuid; an empty set means none. */
export type Guests = 'all' | ReadonlySet<string>

/**
 * The caller, however it authenticated. A credential (a key, later a session) becomes one of these, and nothing behind
 * the authenticator sees more.
 */
export interface Principal {
  readonly kind: 'key'
  /** Unique over all kinds, as `key:12`. Data per caller (limits, Idempotency-Keys) is stored under it. */
  readonly ref: string
  /** Id of its API key, which bounds what it makes. */
  readonly keyId: number
  /** Name in logs, and of a task's requester: `api:<key name>`. */
  readonly user: string
  /** Scopes and wildcards. */
  readonly scopes: readonly string[]
  readonly guests: Guests
}

/** Whether the caller is bound to some guests. */
export function isBound(caller: Principal): boolean {
  return caller.guests !== 'all'
}

export function maySee(caller: Principal, guestUuid: string): boolean {
  return caller.guests === 'all' || caller.guests.has(guestUuid)
}

/** The guests that a caller may see, unordered; for a bound caller the cost depends on its own guests only. */
export function guestsOf(
  caller: Principal,
  view: { guests(): Iterable<GuestView>; findGuest(uuid: string): GuestView | undefined },
): Iterable<GuestView> {
  if (caller.guests === 'all') return view.guests()
  return [...caller.guests].flatMap((uuid) => view.findGuest(uuid) ?? [])
}
