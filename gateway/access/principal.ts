import type { Holding } from '../../shared/fair-room.js'
import type { GuestView } from '../fleet/contract.js'
import type { CreationShare } from './creation-limits.js'
import type { SubUserBounds } from './sub-user-bounds.js'

/** Uuids of guests, or all guests. An empty set means no guests. */
export type Guests = 'all' | ReadonlySet<string>

interface Caller {
  /**
   * Name of the caller, for example `key:12`, unique among callers of all kinds. Audit entries and Idempotency-Keys are
   * stored under it.
   */
  readonly ref: string
  /**
   * `ref` of the oldest limited key among the caller's creators, or else `ref` of the caller. All callers with the same
   * root share their limits. Therefore, a caller cannot raise its limits by creating keys or sub-users.
   */
  readonly root: string
  /** Name in logs and in the `requested_by` of tasks: `api:<key name>`, or the name of the logged-in user. */
  readonly user: string
  /** Scopes and wildcards that the caller has. */
  readonly scopes: readonly string[]
  readonly guests: Guests
  /** Additional limits of a sub-user. Absent: the caller is not a sub-user. */
  readonly subUser?: SubUserBounds
  /**
   * Sub-user whose panel the caller, an administrator, sees with the rights of the sub-user. Absent: the caller uses
   * its own account or key.
   */
  readonly viewed?: { readonly ref: string; readonly user: string }
}

/** A program with an API key. */
export interface KeyPrincipal extends Caller {
  readonly kind: 'key'
  /** Id of the API key. The key limits everything that it creates. */
  readonly keyId: number
  /**
   * `ref` of the oldest key, among this key and its creators, that may access only some containers. Absent: no such key
   * exists.
   */
  readonly boundRoot?: string
  /** True if the key has no limits: all scopes, all containers, all addresses and no expiry. */
  readonly unlimited: boolean
}

/** A user who has logged in. */
export interface SessionPrincipal extends Caller {
  readonly kind: 'session'
  readonly accountId: number
  readonly accountKind: 'admin' | 'sub_user'
  /** Digest that identifies the session. */
  readonly sessionDigest: string
  /** Time in ms since 1970 at which the user last entered the password or a code. */
  readonly confirmedAtMs: number
  /** True if the user must set up a second factor before doing anything else. */
  readonly mustEnrol: boolean
}

/** The caller of a request. Each kind of credential (API key, session or none) has its own type. */
export type Principal = KeyPrincipal | SessionPrincipal | NobodyPrincipal

/** A caller without a credential, for routes of scope `public`. */
export interface NobodyPrincipal extends Caller {
  readonly kind: 'nobody'
}

export const nobody: NobodyPrincipal = {
  kind: 'nobody',
  ref: 'nobody',
  root: 'nobody',
  user: '',
  scopes: [],
  guests: new Set(),
}

/** True if no quota and no rate limit applies to the caller: an administrator of any role, or a key without limits. */
export function isUnbounded(caller: Principal): boolean {
  return caller.kind === 'key' ? caller.unlimited : caller.kind === 'session' && caller.accountKind === 'admin'
}

/** Returns the quota towards which the consoles and streams of a caller count. */
export function holdingOf(caller: Principal): Holding {
  return { share: caller.root, unlimited: isUnbounded(caller) }
}

/** Returns the quota in which a new sub-user of this caller counts. The quota can belong to the caller's creator. */
export function creationShareOf(caller: Principal): CreationShare {
  if (isUnbounded(caller)) return { share: '', isBound: false }
  const boundRoot = caller.kind === 'key' ? caller.boundRoot : caller.root
  return { share: boundRoot ?? caller.root, isBound: boundRoot !== undefined }
}

/** True if the caller may access only some guests. */
export function isBound(caller: Principal): boolean {
  return caller.guests !== 'all'
}

export function maySee(caller: Principal, guestUuid: string): boolean {
  return caller.guests === 'all' || caller.guests.has(guestUuid)
}

/** True if the caller may see the guest now. Callers that may access only some guests cannot see deleted guests. */
export function mayFind(caller: Principal, { guest }: GuestView): boolean {
  return caller.guests === 'all' || (caller.guests.has(guest.uuid) && !guest.deletion)
}

/**
 * Returns the guests that a caller may see, in any order. A caller that is restricted to some guests sees no deleted
 * guests. For such a caller, only its own guests are searched.
 */
export function guestsOf(
  caller: Principal,
  view: { guests(): Iterable<GuestView>; findGuest(uuid: string): GuestView | undefined },
): Iterable<GuestView> {
  if (caller.guests === 'all') return view.guests()
  return [...caller.guests].flatMap((uuid) => {
    const found = view.findGuest(uuid)
    return found && mayFind(caller, found) ? [found] : []
  })
}
