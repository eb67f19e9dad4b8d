import type { Holding } from '../../shared/fair-room.js'
import type { GuestView } from '../fleet/contract.js'
import type { CreationShare } from './creation-limits.js'
import type { SubUserBounds } from './sub-user-bounds.js'

/** Guests by uuid; an empty set means none. */
export type Guests = 'all' | ReadonlySet<string>

interface Caller {
  /**
   * Unique across all kinds, for example `key:12`. Data per caller (Idempotency-Keys, audit entries) is stored under
   * it.
   */
  readonly ref: string
  /**
   * `ref` of the caller whose limits it shares: the first limited key in the chain of keys that created it, else
   * itself. Creating keys and sub-users therefore gives no larger share.
   */
  readonly root: string
  /** Name in logs, and as a task's requester: `api:<key name>`, or the name of the logged-in user. */
  readonly user: string
  /** Scopes and wildcards. */
  readonly scopes: readonly string[]
  readonly guests: Guests
  /** Bounds of a sub-user. */
  readonly subUser?: SubUserBounds
}

/** A program with an API key. */
export interface KeyPrincipal extends Caller {
  readonly kind: 'key'
  /** Id of its API key, which bounds everything that it creates. */
  readonly keyId: number
  /** `ref` of the first key of its chain that is bound to containers; absent: none is. */
  readonly boundRoot?: string
  /** True if nothing bounds it: neither scopes, containers, addresses nor time. */
  readonly unlimited: boolean
}

/** A person who has logged in. */
export interface SessionPrincipal extends Caller {
  readonly kind: 'session'
  readonly accountId: number
  readonly accountKind: 'admin' | 'sub_user'
  /** Digest that identifies the session. */
  readonly sessionDigest: string
  /** Time of the last confirmation of the password or a code. */
  readonly confirmedAtMs: number
  /** True if its user must set up a second factor before anything else. */
  readonly mustEnrol: boolean
}

/**
 * The caller, however it authenticated. The authenticator converts every credential (a key, a session) to one of these.
 */
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

/** True if the caller may do everything, from everywhere, for ever. Its creations cannot exceed its rights. */
export function isUnbounded(caller: Principal): boolean {
  return caller.kind === 'key' ? caller.unlimited : caller.kind === 'session' && caller.accountKind === 'admin'
}

/** The callers for which consoles and streams are counted. */
export function holdingOf(caller: Principal): Holding {
  return { share: caller.root, unlimited: isUnbounded(caller) }
}

/** The share that keys and sub-users of the caller count for. */
export function creationShareOf(caller: Principal): CreationShare {
  if (isUnbounded(caller)) return { share: '', isBound: false }
  const boundRoot = caller.kind === 'key' ? caller.boundRoot : caller.root
  return { share: boundRoot ?? caller.root, isBound: boundRoot !== undefined }
}

/** True if the caller is bound to some guests. */
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
