import { containsAddresses } from './addresses.js'
import { coversScope, everything, intersectScopes } from './scopes.js'

/** The rights of a key, with all limits that apply to it. */
export interface Rights {
  /** Scopes and wildcards that the key has. */
  readonly scopes: readonly string[]
  /** Uuids of accessible containers; an empty list means no container. */
  readonly containers: 'all' | readonly string[]
  /** Lists of addresses and CIDRs. The client's address must be in each list. */
  readonly addresses: readonly (readonly string[])[]
  /** Time in ms since 1970 when the rights end. 0: they never end. */
  readonly expiresAtMs: number
  readonly disabled: boolean
}

export const unlimited: Rights = {
  scopes: [everything],
  containers: 'all',
  addresses: [],
  expiresAtMs: 0,
  disabled: false,
}

export function intersectRights(a: Rights, b: Rights): Rights {
  return {
    scopes: intersectScopes(a.scopes, b.scopes),
    containers: intersectContainers(a.containers, b.containers),
    addresses: [...a.addresses, ...b.addresses],
    expiresAtMs: earlier(a.expiresAtMs, b.expiresAtMs),
    disabled: a.disabled || b.disabled,
  }
}

function intersectContainers(a: Rights['containers'], b: Rights['containers']): Rights['containers'] {
  if (a === 'all') return b
  if (b === 'all') return a
  const other = new Set(b)
  return a.filter((uuid) => other.has(uuid))
}

function earlier(a: number, b: number): number {
  return a === 0 || b === 0 ? a + b : Math.min(a, b)
}

export type Dimension = 'scopes' | 'container_uuids' | 'ip_whitelist' | 'expires_at'

/**
 * Returns the API's name of the first field in which `want` exceeds `limit`. `undefined`: no field exceeds it. Ignores
 * `disabled`, because a disabled key can be enabled later.
 */
export function findExcess(want: Rights, limit: Rights): Dimension | undefined {
  if (!want.scopes.every((scope) => coversScope(limit.scopes, scope))) return 'scopes'
  if (!containsContainers(limit.containers, want.containers)) return 'container_uuids'
  const within = (outer: readonly string[]) => want.addresses.some((inner) => containsAddresses(outer, inner))
  if (!limit.addresses.every(within)) return 'ip_whitelist'
  if (limit.expiresAtMs !== 0 && (want.expiresAtMs === 0 || want.expiresAtMs > limit.expiresAtMs)) return 'expires_at'
  return undefined
}

function containsContainers(outer: Rights['containers'], inner: Rights['containers']): boolean {
  if (outer === 'all') return true
  if (inner === 'all') return false
  const all = new Set(outer)
  return inner.every((uuid) => all.has(uuid))
}

/** True if the rights are enabled and have no limits. */
export function isUnlimited(rights: Rights): boolean {
  return !rights.disabled && findExcess(unlimited, rights) === undefined
}

/** True if the rights allow everything on all containers, and are in force at `nowMs`. */
export function isAdministrator(rights: Rights, nowMs: number): boolean {
  const full = rights.scopes.includes(everything) && rights.containers === 'all'
  return full && !rights.disabled && !isExpired(rights, nowMs)
}

export function isExpired(rights: Rights, nowMs: number): boolean {
  return rights.expiresAtMs !== 0 && rights.expiresAtMs <= nowMs
}
