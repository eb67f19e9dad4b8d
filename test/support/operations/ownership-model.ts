import {
  firstOwnership,
  mayStart,
  planOwnership,
  unknownOwnership,
  type Ownership,
  type OwnershipEvent,
} from '../../../agent/guests/ownership/plan-ownership.js'
import {
  mayForgetMove,
  planBegin,
  planCancel,
  planEvacuate,
  planReinstate,
  planReturn,
  planSwitch,
  type GuestOwner,
} from '../../../gateway/fleet/placement/plan-owner.js'

/*
 * A model of one guest that moves between hosts. It calls the product's own functions. Each message that was ever
 * possible can be delivered at any later time, any number of times, or never. Gateways have no state besides the store.
 * The model therefore covers several gateways and paused gateways, too. Agents journal each event, so the crash of an
 * agent only delays the event. The crash of a host also ends its guests.
 *
 * Incidents: an operator restores a host from an older copy of its disk, or removes a host without a guest from the
 * fleet. A restored host may run an old copy of the guest, but only until a gateway reaches the host.
 */

/**
 * `whole`: the newest disk of the guest; `stale`: the guest has run on another host in the meantime; `partial`: the
 * transfer is incomplete; `restored`: an older disk that an operator restored on purpose.
 */
type Copy = 'none' | 'partial' | 'whole' | 'stale' | 'restored'

export interface HostCopy {
  readonly ownership: Ownership
  readonly isRunning: boolean
  readonly copy: Copy
  /** True if the target has confirmed the last transfer. */
  readonly isSent: boolean
  /** True if the host was restored from an older image. Until it knows the newest owner, it may run an old copy. */
  readonly isRestored?: boolean
  /** True for a host that was removed from the fleet. */
  readonly isRemoved?: boolean
  /** True for a failed host that is off. */
  readonly isDown?: boolean
  /** True for a host that has returned, until a gateway has checked whether another host owns the guest. */
  readonly isWaiting?: boolean
}

interface BegunMove {
  readonly from: number
  readonly to: number
  readonly generation: number
  /** True if the source has ever reported that it handed the guest over. */
  readonly isHandedOver: boolean
  /** Ownership generation (number) of the decision about this move. Absent: the gateway has not decided yet. */
  readonly decided?: number
  /** True if both hosts know the decision about the move. Gateways then no longer repeat it. */
  readonly isForgotten?: boolean
}

/** The restore of a guest of a failed host on another host. */
export interface EvacuatedGuest {
  readonly from: number
  readonly to: number
  readonly generation: number
  /** `failed`: the target has deleted its copy. `reinstated`: the failed host is the owner again. */
  readonly state: 'ordered' | 'done' | 'failed' | 'reinstated'
}

/** An image of a host's disk. */
export interface HostImage {
  readonly host: number
  readonly copy: HostCopy
}

export interface World {
  readonly store: GuestOwner
  readonly moves: readonly BegunMove[]
  readonly evacuations: readonly EvacuatedGuest[]
  /** Hosts that have owned the guest, indexed by the generation that the store recorded. */
  readonly owners: readonly number[]
  readonly hosts: readonly HostCopy[]
  readonly image?: HostImage
  /** Number of incidents so far: hosts that were restored from an image, or removed. */
  readonly incidents: number
}

/** Maximum number of moves in a search, and maximum number of incidents (hosts that are restored or removed). */
export interface Limits {
  readonly moves: number
  readonly incidents: number
  /** Maximum number of evacuations. Default: 0. */
  readonly evacuations?: number
}

/** The product's functions and rules. Tests replace one of them to plant a fault. */
export const productRules = {
  planOwnership,
  mayStart,
  planBegin,
  planSwitch,
  planCancel,
  planReturn,
  planEvacuate,
  planReinstate,
  mayForgetMove,
  /** True if a gateway may make the failed host the owner again. The restore must have failed and been undone. */
  mayReinstate: (state: EvacuatedGuest['state']): boolean => state === 'failed',
  /** True if a gateway may restore the guest on a host that has this role for the guest. */
  mayRestoreOn: ({ role }: Ownership): boolean => role === 'absent',
  /** True if a gateway tells a host with this role that another host owns the guest, even without a move. */
  isTold: ({ role }: Ownership): boolean => role !== 'absent',
  /** True if a host keeps the disk of a guest that it has handed over in a move that was canceled while it was off. */
  keepsCopies: (): boolean => true,
  /** True if a host that has returned starts its guest only after a gateway has checked the owner. */
  waitsForOwners: (): boolean => true,
  /** True if a gateway may tell a host to delete its copy. `hasOwner`: the owner has confirmed its ownership. */
  mayDismiss: (hasOwner: boolean): boolean => hasOwner,
  /** True if a gateway stops an outdated copy of a guest that a host reports, even without a move of the guest. */
  fences: (): boolean => true,
  /** True if the source of a move may send the last changes of the disk. The guest must not run there. */
  maySend: ({ isRunning }: Pick<HostCopy, 'isRunning'>): boolean => !isRunning,
  /** True if the source may report the hand-over of the guest. The guest must be stopped, and its disk sent. */
  mayHandOver: ({ isRunning, isSent }: Pick<HostCopy, 'isRunning' | 'isSent'>): boolean => !isRunning && isSent,
  /** True if the gateway may make the target the owner of the guest. The source must have handed over the guest. */
  maySwitch: ({ isHandedOver }: Pick<BegunMove, 'isHandedOver'>): boolean => isHandedOver,
  /** Returns the ownership generation that a host remembers after it has deleted its copy of the guest. */
  rememberedGeneration: (generation: number): number => generation,
}
export type Rules = typeof productRules

export interface Step {
  readonly name: string
  readonly next: World
  /** False for steps that need not happen, such as new moves, crashes, failures of hosts and incidents. */
  readonly isProgress: boolean
}

export class Violation extends Error {}

export function firstWorld(hosts: number): World {
  const absent: HostCopy = { ownership: unknownOwnership, isRunning: false, copy: 'none', isSent: false }
  const owner: HostCopy = { ownership: firstOwnership, isRunning: true, copy: 'whole', isSent: false }
  return {
    store: { hostId: '0', generation: 0 },
    moves: [],
    evacuations: [],
    incidents: 0,
    owners: [0],
    hosts: Array.from({ length: hosts }, (_, index) => (index === 0 ? owner : absent)),
  }
}

/** True if the guest runs only on the host that the store names, and no move is undecided. */
export function isSettled({ store, hosts }: World): boolean {
  return !store.move && hosts.every(({ isRunning }, host) => isRunning === (host === Number(store.hostId)))
}

/** @throws {Violation} if the guest runs twice */
export function checkWorld({ hosts, store }: World): void {
  const isExcused = ({ isRestored, ownership }: HostCopy) => isRestored && ownership.generation < store.generation
  if (hosts.filter((host) => host.isRunning && !isExcused(host)).length > 1) throw new Violation('the guest runs twice')
}

/** Returns all possible next steps. @throws {Violation} if a step starts a copy without the newest disk */
export function stepsOf(world: World, rules: Rules, limits: Limits): Step[] {
  return [
    ...(mayBegin(world, limits) ? beginSteps(world, rules) : []),
    ...decisionSteps(world, rules),
    ...returnSteps(world, rules),
    ...messageSteps(world, rules),
    ...world.hosts.flatMap((_, host) => hostSteps(world, rules, host)),
  ]
}

/** Returns the world after a crash of a host, which ends the guest there. */
export function crash(world: World, host: number): World {
  return world.hosts[host]?.isRunning ? withHost(world, host, { isRunning: false }) : world
}

/** True if a move may begin. With incidents or evacuations, both hosts of each earlier move must know its outcome. */
function mayBegin({ moves, evacuations, hosts }: World, limits: Limits): boolean {
  // Guests whose evacuation is stored do not move.
  const isStored = ({ from, generation, state }: EvacuatedGuest): boolean =>
    state !== 'done' && hosts[from]!.ownership.generation <= generation
  if (evacuations.some(isStored)) return false
  return (
    moves.length < limits.moves &&
    ((limits.incidents === 0 && !limits.evacuations) || moves.every(({ isForgotten }) => isForgotten))
  )
}

function beginSteps(world: World, rules: Rules): Step[] {
  const pairs = world.hosts.flatMap((_, from) => world.hosts.map((__, to) => ({ from, to })))
  return pairs.flatMap(({ from, to }) => {
    const move = { id: String(world.moves.length), toHostId: String(to) }
    const store = rules.planBegin(world.store, String(from), move)
    if (!store || world.hosts[from]!.isRemoved || world.hosts[to]!.isRemoved) return []
    const begun = { from, to, generation: store.generation, isHandedOver: false }
    const next = { ...world, store, moves: [...world.moves, begun] }
    return [{ name: `begin ${from}→${to}`, next, isProgress: false }]
  })
}

/** Returns the decisions that a gateway may make about moves, even if its knowledge of the store is outdated. */
function decisionSteps(world: World, rules: Rules): Step[] {
  return world.moves.flatMap((move, id) => {
    const switched = rules.maySwitch(move) ? rules.planSwitch(world.store, String(id)) : undefined
    const canceled = rules.planCancel(world.store, String(id))
    return [
      ...decided(world, id, { name: 'switch', store: switched }),
      ...decided(world, id, { name: 'cancel', store: canceled }),
    ]
  })
}

function decided(world: World, id: number, { name, store }: { name: string; store: GuestOwner | undefined }): Step[] {
  if (!store) return []
  const owners = [...world.owners]
  owners[store.generation] = Number(store.hostId)
  const moves = withMove(world, id, { decided: store.generation })
  return [{ name: `${name} ${id}`, next: { ...world, store, owners, moves }, isProgress: true }]
}

/** Steps in which a gateway makes the source of a move the owner again, because the target is lost. */
function returnSteps(world: World, rules: Rules): Step[] {
  return world.moves.flatMap(({ from, to, decided: generation, isForgotten }, id) => {
    const { isRemoved, copy } = world.hosts[to]!
    const isLost = isRemoved || copy === 'none'
    if (isForgotten || generation === undefined || !isLost || world.hosts[from]!.ownership.role === 'absent') return []
    const switched = { fromHostId: String(from), toHostId: String(to), generation }
    return decided(world, id, { name: 'return', store: rules.planReturn(world.store, switched) })
  })
}

/** Returns a step for each message that may arrive at a host: messages about a move, and about the owner. */
function messageSteps(world: World, rules: Rules): Step[] {
  const ofMoves = world.moves.flatMap(({ from, to, generation, isForgotten }, id) => {
    const moveId = String(id)
    const steps = [
      ...received(world, rules, from, { kind: 'leave', moveId, generation }),
      ...received(world, rules, to, { kind: 'expect', moveId, generation }),
    ]
    return steps.map((step) => ({ ...step, isProgress: !isForgotten }))
  })
  const ofOwners = world.owners.flatMap((owner, generation) => {
    const isReinstated = world.evacuations.some(
      (one) => one.state === 'reinstated' && one.generation + 1 === generation,
    )
    const isRepeated =
      isReinstated || world.moves.some(({ decided: known, isForgotten }) => known === generation && !isForgotten)
    return world.hosts.flatMap((_, host) => {
      if (owner !== host && !rules.mayDismiss(hasAnswered(world, generation) || isCanceled(world, generation)))
        return []
      if (owner === host && isOfEvacuation(world, generation)) return []
      const keepsCopy = isOfEvacuation(world, generation) && rules.keepsCopies()
      const steps = received(world, rules, host, { kind: 'appoint', generation, isOwner: owner === host, keepsCopy })
      return steps.map((step) => ({ ...step, isProgress: isRepeated }))
    })
  })
  return [...ofMoves, ...ofOwners]
}

/** True if an evacuation made this generation. Its owner gets an order to restore instead of the event `appoint`. */
function isOfEvacuation({ evacuations }: World, generation: number): boolean {
  return evacuations.some((one) => one.generation === generation)
}

/** True if a canceled move made this generation. Its source has the newest disk, even if it does not answer. */
function isCanceled({ moves, owners }: World, generation: number): boolean {
  return moves.some(({ decided: known, from }) => known === generation && owners[generation] === from)
}

/** True if the owner in this generation has a copy of the guest, and knows that it owns the guest. */
function hasAnswered({ owners, hosts }: World, generation: number): boolean {
  const owner = hosts[owners[generation]!]!
  return !owner.isRemoved && owner.copy !== 'none' && owner.ownership.generation >= generation
}

export function received(world: World, rules: Rules, host: number, event: OwnershipEvent): Step[] {
  const before = world.hosts[host]!
  return before.isRemoved || before.isDown ? [] : applied(world, rules, host, event)
}

function applied(world: World, rules: Rules, host: number, event: OwnershipEvent): Step[] {
  const before = world.hosts[host]!
  // The target of a move refuses to become the owner if it has no copy of the disk. Only an incident can lead to this.
  const hasNothing = world.incidents > 0 && before.ownership.role === 'arriving' && before.copy === 'none'
  if (event.kind === 'appoint' && event.isOwner && hasNothing) return []
  const change = rules.planOwnership(before.ownership, event)
  if (!change) return []
  const { effect, next } = change
  const generation = next.role === 'absent' ? rules.rememberedGeneration(next.generation) : next.generation
  const ends = effect === 'discard' || effect === 'fence'
  const after: Partial<HostCopy> = {
    ownership: { ...next, generation },
    isSent: false,
    ...(ends && { isRunning: false }),
    ...(effect === 'discard' && { copy: 'none' as const }),
  }
  return [{ name: `${event.kind} at ${host}`, next: withHost(world, host, after), isProgress: true }]
}

function hostSteps(world: World, rules: Rules, host: number): Step[] {
  const at = world.hosts[host]!
  const steps: Step[] = []
  if (at.isDown) return steps
  const add = (name: string, next: World): void => void steps.push({ name: `${name} ${host}`, next, isProgress: true })
  if (rules.mayStart(at.ownership) && !at.isWaiting && !at.isRunning && at.copy !== 'none')
    add('start', started(world, host))
  steps.push(...received(world, rules, host, { kind: 'stay' }))
  if (at.ownership.role !== 'leaving') return steps
  if (at.isRunning) add('stop', withHost(world, host, { isRunning: false }))
  for (const next of sent(world, rules, host)) add('send from', next)
  if (rules.mayHandOver(at))
    for (const step of received(world, rules, host, { kind: 'hand_over' }))
      add('hand over', reported(step.next, Number(at.ownership.moveId)))
  return steps
}

function reported(world: World, id: number): World {
  return { ...world, moves: withMove(world, id, { isHandedOver: true }) }
}

export function withMove({ moves }: World, id: number, change: Partial<BegunMove>): readonly BegunMove[] {
  return moves.map((move, index) => (index === id ? { ...move, ...change } : move))
}

/** Lets a host start its copy of the guest. The guest changes this copy at once, so that all other copies are stale. */
function started(world: World, host: number): World {
  if (world.hosts[host]!.copy === 'restored') return withHost(world, host, { isRunning: true })
  if (world.hosts[host]!.copy !== 'whole') throw new Violation(`host ${host} starts a ${world.hosts[host]!.copy} copy`)
  const hosts = world.hosts.map((other, index) => {
    if (index === host) return { ...other, isRunning: true }
    return other.copy === 'whole' ? { ...other, copy: 'stale' as const } : other
  })
  return { ...world, hosts }
}

/** Returns the possible results of the last transfer of a move: it breaks, or the target confirms it. */
function sent(world: World, rules: Rules, host: number): World[] {
  const source = world.hosts[host]!
  const { ownership, copy } = source
  const to = world.moves[Number(ownership.moveId)]?.to ?? -1
  const target = world.hosts[to]?.ownership
  if (!rules.maySend(source) || target?.role !== 'arriving' || target.moveId !== ownership.moveId) return []
  // A repeated transfer must be confirmed again. A complete disk at the target stays until the transfer has ended. This
  // matters if the source was restored and repeats its transfer.
  const isKept = world.incidents > 0 && ['whole', 'restored'].includes(world.hosts[to]!.copy)
  const broken = withHost(withHost(world, to, isKept ? {} : { copy: 'partial' }), host, { isSent: false })
  return [broken, withHost(withHost(world, to, { copy }), host, { isSent: true })]
}

export function withHost(world: World, host: number, change: Partial<HostCopy>): World {
  return { ...world, hosts: world.hosts.map((one, index) => (index === host ? { ...one, ...change } : one)) }
}
