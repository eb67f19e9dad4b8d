import { addAllocation, type Allocation, type Ratios } from '../../../shared/allocation.js'
import { toBerthError, type BerthError } from '../../../shared/errors.js'
import { isPlaced, noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import type { GuestView, Suggestion } from '../contract.js'
import { planLoad, planMoveTargets, type Candidate } from './plan-placement.js'
import { findBroken, noNeighbors, planNeighbors, ruleChecks, type Neighbors } from './plan-rules.js'

interface BalanceFacts {
  readonly candidates: readonly Candidate[]
  readonly guests: readonly GuestView[]
  readonly ratios: Ratios
  /** Throws if the guest cannot move at present. */
  readonly refuse: (guest: GuestView) => void
}

/** Greatest number of suggestions of each kind. */
const mostSuggestions = 20
/** A move must reduce the higher load of the two hosts by at least this fraction. */
const leastGain = 0.05

/** Plans moves that fulfill broken rules, and then moves that even out the load, as if they happened one after another. */
export function planBalance(facts: BalanceFacts): Suggestion[] {
  const fleet = new BalancedFleet(facts)
  const suggestions: Suggestion[] = []
  for (const guest of facts.guests) {
    // An earlier suggestion may have separated the guest from the one that broke its rule.
    if (suggestions.length === mostSuggestions) break
    if (fleet.findBrokenRule(guest)) suggestions.push(fleet.repair(guest))
  }
  for (let count = 0; count < mostSuggestions; count++) {
    const next = fleet.relieve()
    if (!next) break
    suggestions.push(next)
  }
  return suggestions
}

/** The hosts and guests after the suggested moves. */
class BalancedFleet {
  readonly #allocated: Map<string, Allocation>
  readonly #hostOf = new Map<GuestView, string>()
  readonly #suggested = new Set<GuestView>()

  constructor(private readonly facts: BalanceFacts) {
    this.#allocated = new Map(facts.candidates.map(({ host, allocated }) => [host.id, allocated]))
    for (const guest of facts.guests) this.#hostOf.set(guest, guest.hostId)
  }

  findBrokenRule(view: GuestView): BerthError | undefined {
    const { placement } = view.guest
    if (!placement || !isPlaced(placement)) return undefined
    const at = this.facts.candidates.find(({ host }) => host.id === this.#hostOf.get(view))
    return at && findBroken(at.host, ruleChecks(placement, this.#neighborsOf(view)))
  }

  /** Suggests a move of a guest whose rules forbid its host. */
  repair(guest: GuestView): Suggestion {
    const code = this.findBrokenRule(guest)?.code ?? ''
    const kind = { guest, reason: 'rule', code } as const
    try {
      return this.#move(kind, this.#targetsOf(guest)[0]!)
    } catch (error) {
      const load = this.#loadOf(this.#hostOf.get(guest)!)
      const { message } = toBerthError(error, 'no target was found')
      return { ...kind, toHostId: '', message, from: { before: load, after: load } }
    }
  }

  /** Suggests the move that relieves the most loaded host best. @returns undefined if no move gains enough */
  relieve(): Suggestion | undefined {
    const loads = [...this.#allocated.keys()].map((id) => ({ id, load: this.#loadOf(id) }))
    const [highest] = loads.filter(({ load }) => Number.isFinite(load)).sort((a, b) => b.load - a.load)
    if (!highest) return undefined
    let best: { readonly guest: GuestView; readonly toHostId: string; readonly worst: number } | undefined
    for (const guest of this.facts.guests) {
      if (this.#hostOf.get(guest) !== highest.id || this.#suggested.has(guest)) continue
      const toHostId = this.#findTarget(guest)
      if (toHostId === undefined) continue
      const worst = Math.max(this.#loadOf(highest.id, guest, -1), this.#loadOf(toHostId, guest, 1))
      if (worst <= highest.load - leastGain && worst < (best?.worst ?? Infinity)) best = { guest, toHostId, worst }
    }
    return best && this.#move({ guest: best.guest, reason: 'load', code: '' }, best.toHostId)
  }

  #findTarget(guest: GuestView): string | undefined {
    try {
      return this.#targetsOf(guest)[0]
    } catch {
      return undefined // no host can take the guest
    }
  }

  /** @throws {BerthError} if no host can take the guest */
  #targetsOf(view: GuestView): string[] {
    const { candidates, ratios, refuse } = this.facts
    refuse(view)
    const others = candidates
      .filter(({ host }) => host.id !== this.#hostOf.get(view))
      .map((candidate) => ({ ...candidate, allocated: this.#allocated.get(candidate.host.id)! }))
    return planMoveTargets(view.guest, others, { ratios, neighbors: this.#neighborsOf(view) })
  }

  #neighborsOf({ guest: { uuid, placement } }: GuestView): Neighbors {
    const rules: PlacementRules = placement ?? noPlacement
    if (rules.spread === '' && rules.together === '') return noNeighbors
    const placed = this.facts.guests.flatMap((view) => {
      const { placement, limits } = view.guest
      const hostId = this.#hostOf.get(view)!
      return placement ? [{ hostId, uuid: view.guest.uuid, rules: placement, limits }] : []
    })
    return planNeighbors(placed, { uuid, rules })
  }

  #move(kind: Pick<Suggestion, 'guest' | 'reason' | 'code'>, toHostId: string): Suggestion {
    const { guest } = kind
    const fromHostId = this.#hostOf.get(guest)!
    const before = { from: this.#loadOf(fromHostId), to: this.#loadOf(toHostId) }
    this.#allocated.set(fromHostId, this.#allocationOf(fromHostId, guest, -1))
    this.#allocated.set(toHostId, this.#allocationOf(toHostId, guest, 1))
    this.#hostOf.set(guest, toHostId)
    this.#suggested.add(guest)
    const from = { before: before.from, after: this.#loadOf(fromHostId) }
    return { ...kind, toHostId, message: '', from, to: { before: before.to, after: this.#loadOf(toHostId) } }
  }

  #loadOf(hostId: string, guest?: GuestView, sign: 1 | -1 = 1): number {
    const { host } = this.facts.candidates.find((one) => one.host.id === hostId)!
    const allocated = guest ? this.#allocationOf(hostId, guest, sign) : this.#allocated.get(hostId)!
    return planLoad({ host, allocated }, this.facts.ratios)
  }

  /** Resources of a host that are allocated with (`1`) or without (`-1`) the guest. */
  #allocationOf(hostId: string, { guest: { limits } }: GuestView, sign: 1 | -1): Allocation {
    const { vcpuMilli = 0, ramMb = 0, diskGb = 0 } = limits ?? {}
    const change = { vcpuMilli: sign * vcpuMilli, ramMb: sign * ramMb, diskGb: sign * diskGb }
    return addAllocation(this.#allocated.get(hostId)!, change)
  }
}
