import { addAllocation, type Allocation, type Ratios } from '../../../shared/allocation.js'
import { toBerthError, type BerthError } from '../../../shared/errors.js'
import { isPlaced, noPlacement } from '../../../shared/placement-rules.js'
import type { GuestView } from '../contract.js'
import type { Suggestion, SuggestionChoice } from '../move-contract.js'
import { isDeleted } from '../guest-status.js'
import { NeighborIndex } from './neighbor-index.js'
import { planLoad, planMoveTargets, type Candidate } from './plan-placement.js'
import { findBroken, ruleChecks, type Neighbors, type PlacedGuest } from './plan-rules.js'

/** Restricts the suggestions. `refuse` throws if the guest cannot move at present. */
export type BalanceChoice = Partial<SuggestionChoice> & Pick<SuggestionChoice, 'refuse'>

interface BalanceFacts extends BalanceChoice {
  readonly candidates: readonly Candidate[]
  readonly guests: readonly GuestView[]
  /** Reservations for new and moving guests. */
  readonly reserved: readonly PlacedGuest[]
  readonly ratios: Ratios
}

/** Default of the greatest number of suggestions of each kind. */
const mostSuggestions = 20
/** Number of searches without a target after which no further guest is tried, because such a search takes long. */
const mostFailures = 200
/** Default of the value by which a move must lower the higher load of its two hosts. A load of 1 means fully allocated. */
const usualGain = 0.05

/** Plans moves that fulfill broken rules, then moves that even out the load, as if all earlier moves were done. */
export function planBalance(facts: BalanceFacts): Suggestion[] {
  const { reasons = ['rule', 'load'], most = mostSuggestions } = facts
  const fleet = new BalancedFleet(facts)
  const suggestions = reasons.includes('rule') ? planRepairs(fleet, most) : []
  for (let count = 0; reasons.includes('load') && count < most; count++) {
    const next = fleet.relieve()
    if (!next) break
    suggestions.push(next)
  }
  return suggestions
}

/** Suggests moves that fulfill rules, and then lists guests whose rules no move can fulfill. */
function planRepairs(fleet: BalancedFleet, most: number): Suggestion[] {
  const suggestions: Suggestion[] = []
  const failed: GuestView[] = []
  let searches = 0
  for (const guest of fleet.guests) {
    if (suggestions.length === most || searches === mostFailures) break
    // The rules are checked only now, because an earlier suggestion can have moved the other guest of the broken rule.
    const broken = fleet.findBrokenRule(guest)
    if (!broken) continue
    const suggestion = fleet.repair(guest, broken)
    if (suggestion.to) suggestions.push(suggestion)
    else {
      failed.push(guest)
      if (!fleet.isRefused(guest)) searches++
    }
  }
  for (const guest of failed) {
    if (suggestions.length === most) break
    const broken = fleet.findBrokenRule(guest)
    if (broken) suggestions.push(fleet.repair(guest, broken))
  }
  return suggestions
}

/** The hosts and guests after the suggested moves. */
class BalancedFleet {
  /** Guests whose moves can be suggested. */
  readonly guests: readonly GuestView[]
  readonly #candidates: Map<string, Candidate>
  readonly #guestsOn = new Map<string, Set<GuestView>>()
  readonly #hostOf = new Map<GuestView, string>()
  readonly #index = new NeighborIndex()
  readonly #suggested = new Set<GuestView>()
  /** Hosts that no move can relieve enough. */
  readonly #hopeless = new Set<string>()
  readonly #leastGain: number

  constructor(private readonly facts: BalanceFacts) {
    this.#leastGain = facts.leastGain ?? usualGain
    this.#candidates = new Map(facts.candidates.map((candidate) => [candidate.host.id, candidate]))
    const moving = new Set(facts.reserved.map(({ uuid }) => uuid))
    this.guests = facts.guests.filter(({ guest }) => !moving.has(guest.uuid) && !isDeleted(guest))
    for (const placed of facts.reserved) this.#index.add(placed)
    for (const guest of this.guests) this.#put(guest, guest.hostId)
  }

  findBrokenRule(view: GuestView): BerthError | undefined {
    const { placement } = view.guest
    if (!placement || !isPlaced(placement)) return undefined
    const at = this.#candidates.get(this.#hostOf.get(view)!)
    return at && findBroken(at.host, ruleChecks(placement, this.#neighborsOf(view)))
  }

  /** True if the guest must not move. No target is searched for such a guest. */
  isRefused(guest: GuestView): boolean {
    try {
      this.facts.refuse(guest)
      return false
    } catch {
      return true
    }
  }

  /** Suggests a move of a guest whose rules forbid its host. */
  repair(guest: GuestView, { code }: BerthError): Suggestion {
    const kind = { guest, reason: 'rule', code } as const
    try {
      return this.#move(kind, this.#targetsOf(guest)[0]!)
    } catch (error) {
      const load = this.#loadOf(this.#hostOf.get(guest)!)
      const { message } = toBerthError(error, 'no suitable target host was found')
      return { ...kind, toHostId: '', message, from: { before: load, after: load } }
    }
  }

  /** Suggests the best move that relieves a host. Tries the most loaded host first. */
  relieve(): Suggestion | undefined {
    const loads = [...this.#candidates.keys()].map((id) => ({ id, load: this.#loadOf(id) }))
    const ranked = loads.filter(({ load }) => Number.isFinite(load)).sort((a, b) => b.load - a.load)
    for (const { id, load } of ranked) {
      if (this.#hopeless.has(id)) continue
      // No move can gain enough if even the least loaded host has nearly the same load.
      if (ranked.at(-1)!.load > load - this.#leastGain) return undefined
      const best = this.#findRelief(id, load)
      if (best) return this.#move({ guest: best.guest, reason: 'load', code: '' }, best.toHostId)
      this.#hopeless.add(id)
    }
    return undefined
  }

  /** Finds the move that relieves a host most. @returns undefined if no move reduces the load enough */
  #findRelief(hostId: string, load: number): { guest: GuestView; toHostId: string } | undefined {
    let best: { readonly guest: GuestView; readonly toHostId: string; readonly worst: number } | undefined
    const isBetter = (worst: number): boolean => worst <= load - this.#leastGain && worst < (best?.worst ?? Infinity)
    for (const guest of this.#guestsOn.get(hostId) ?? []) {
      const left = this.#loadOf(hostId, guest, -1)
      if (this.#suggested.has(guest) || !isBetter(left)) continue
      const toHostId = this.#findTarget(guest)
      if (toHostId === undefined) continue
      const worst = Math.max(left, this.#loadOf(toHostId, guest, 1))
      if (isBetter(worst)) best = { guest, toHostId, worst }
    }
    return best
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
    const { ratios, refuse } = this.facts
    refuse(view)
    const others = [...this.#candidates.values()].filter(({ host }) => host.id !== this.#hostOf.get(view))
    return planMoveTargets(view.guest, others, { ratios, neighbors: this.#neighborsOf(view) })
  }

  #neighborsOf(view: GuestView): Neighbors {
    return this.#index.neighborsOf({ hostId: this.#hostOf.get(view)!, rules: view.guest.placement ?? noPlacement })
  }

  #move(kind: Pick<Suggestion, 'guest' | 'reason' | 'code'>, toHostId: string): Suggestion {
    const { guest } = kind
    const fromHostId = this.#hostOf.get(guest)!
    const before = { from: this.#loadOf(fromHostId), to: this.#loadOf(toHostId) }
    this.#allocate(fromHostId, guest, -1)
    this.#allocate(toHostId, guest, 1)
    this.#remove(guest, fromHostId)
    this.#put(guest, toHostId)
    this.#suggested.add(guest)
    const from = { before: before.from, after: this.#loadOf(fromHostId) }
    return { ...kind, toHostId, message: '', from, to: { before: before.to, after: this.#loadOf(toHostId) } }
  }

  #put(view: GuestView, hostId: string): void {
    this.#hostOf.set(view, hostId)
    const guests = this.#guestsOn.get(hostId) ?? new Set()
    this.#guestsOn.set(hostId, guests.add(view))
    if (view.guest.placement) this.#index.add({ hostId, rules: view.guest.placement })
  }

  #remove(view: GuestView, hostId: string): void {
    this.#guestsOn.get(hostId)?.delete(view)
    if (view.guest.placement) this.#index.remove({ hostId, rules: view.guest.placement })
  }

  #allocate(hostId: string, guest: GuestView, sign: 1 | -1): void {
    const allocated = this.#allocationOf(hostId, guest, sign)
    this.#candidates.set(hostId, { ...this.#candidates.get(hostId)!, allocated })
  }

  #loadOf(hostId: string, guest?: GuestView, sign: 1 | -1 = 1): number {
    const { host, allocated } = this.#candidates.get(hostId)!
    return planLoad({ host, allocated: guest ? this.#allocationOf(hostId, guest, sign) : allocated }, this.facts.ratios)
  }

  /** Returns the allocated resources of a host after the guest was added (`sign` is 1) or removed (`sign` is -1). */
  #allocationOf(hostId: string, { guest: { limits } }: GuestView, sign: 1 | -1): Allocation {
    const { vcpuMilli = 0, ramMb = 0, diskGb = 0 } = limits ?? {}
    const change = { vcpuMilli: sign * vcpuMilli, ramMb: sign * ramMb, diskGb: sign * diskGb }
    return addAllocation(this.#candidates.get(hostId)!.allocated, change)
  }
}
