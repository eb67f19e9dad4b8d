import { addAllocation, noAllocation, type Allocation } from '../../../shared/allocation.js'
import { conflict, type BerthError } from '../../../shared/errors.js'
import { hasLabel, noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import type { HostView } from '../contract.js'

/** A guest on a host, or a reservation of resources for a guest. */
export interface PlacedGuest {
  readonly hostId: string
  /** Absent: the guest of the reservation has no uuid yet. */
  readonly uuid?: string | undefined
  readonly rules: Pick<PlacementRules, 'spread' | 'together'>
  readonly limits: Allocation | undefined
}

/** The other guests that determine, by `spread` and `together` rules, on which hosts a guest may be. */
export interface Neighbors {
  /** True if the guest must be apart from this host, because a guest with the same `spread` name is there. */
  readonly isApartFrom: (hostId: string) => boolean
  /** Number of guests with the same `together` name, by host. Hosts with many such guests are preferred. */
  readonly together: ReadonlyMap<string, number>
  /** Resources of guests that will follow the guest to its host. */
  readonly following: Allocation
}

export const noNeighbors: Neighbors = {
  isApartFrom: () => false,
  together: new Map(),
  following: noAllocation,
}

/** The guest whose host is chosen. */
export interface GuestToPlace {
  readonly uuid?: string | undefined
  /** Present host. Absent: the guest is new. */
  readonly fromHostId?: string | undefined
  readonly rules: PlacementRules
  /** Guests that leave the present host together with this one. */
  readonly alsoMoving?: ReadonlySet<string> | undefined
}

/** Finds the guests that the rules of a guest refer to. */
export function planNeighbors(placed: Iterable<PlacedGuest>, guest: GuestToPlace): Neighbors {
  const { spread, together } = guest.rules
  if (spread === '' && together === '') return noNeighbors
  const others = [...placed].filter(({ uuid }) => uuid === undefined || uuid !== guest.uuid)
  const partners = together === '' ? [] : others.filter(({ rules }) => rules.together === together)
  const isFollowing = ({ uuid = '', hostId }: PlacedGuest): boolean =>
    hostId === guest.fromHostId && guest.alsoMoving?.has(uuid) === true
  // `placed` contains a moving guest twice: on its present host, and as a reservation on its target.
  const arriving = new Set(partners.filter(({ hostId }) => hostId !== guest.fromHostId).map(({ uuid }) => uuid))
  const following = partners.filter((partner) => isFollowing(partner) && !arriving.has(partner.uuid))
  const rivals = spread === '' ? [] : others.filter(({ rules }) => rules.spread === spread)
  const apart = new Set(rivals.map(({ hostId }) => hostId))
  return {
    isApartFrom: (hostId) => apart.has(hostId),
    together: countByHost(partners.filter((partner) => !isFollowing(partner))),
    following: following.reduce((sum, { limits }) => addAllocation(sum, limits), noAllocation),
  }
}

function countByHost(guests: readonly PlacedGuest[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { hostId } of guests) counts.set(hostId, (counts.get(hostId) ?? 0) + 1)
  return counts
}

type RuleHost = Pick<HostView, 'id' | 'group' | 'labels'>

interface RuleCheck {
  readonly allows: (host: RuleHost) => boolean
  /** Creates the error for the case that this rule excludes the last possible host. */
  readonly refusal: () => BerthError
}

/** Lists the rules of a guest, in the order in which they are checked. */
export function ruleChecks(
  { group, labels, spread, together }: PlacementRules = noPlacement,
  neighbors: Neighbors = noNeighbors,
): RuleCheck[] {
  return [
    ...(group === '' ? [] : [groupCheck(group)]),
    ...labels.map(labelCheck),
    ...(spread === '' ? [] : [spreadCheck(spread, neighbors)]),
    ...(together === '' ? [] : [togetherCheck(together, neighbors)]),
  ]
}

/** Finds the first rule that a host breaks. @returns undefined if the guest may be on the host */
export function findBroken(host: RuleHost, checks: readonly RuleCheck[]): BerthError | undefined {
  return checks.find(({ allows }) => !allows(host))?.refusal()
}

function groupCheck(group: string): RuleCheck {
  return {
    allows: (host) => host.group === group,
    refusal: () => conflict('placement_group', `placement.group: no available host belongs to the group ${group}`),
  }
}

function labelCheck(label: string): RuleCheck {
  return {
    allows: ({ labels }) => hasLabel(labels, label),
    refusal: () => conflict('placement_label', `placement.labels: no available host has the label ${label}`),
  }
}

function spreadCheck(name: string, { isApartFrom }: Neighbors): RuleCheck {
  return {
    allows: ({ id }) => !isApartFrom(id),
    refusal: () =>
      conflict(
        'placement_spread',
        `placement.spread: each available host already has a container with the spread name ${name}`,
      ),
  }
}

function togetherCheck(name: string, { together }: Neighbors): RuleCheck {
  return {
    allows: ({ id }) => together.size === 0 || together.has(id),
    refusal: () =>
      conflict(
        'placement_together',
        `placement.together: no available host has the other containers with the together name ${name}`,
      ),
  }
}
