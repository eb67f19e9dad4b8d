import {
  firstOwnership,
  mayStart,
  planOwnership,
  unknownOwnership,
  type Ownership,
  type OwnershipEvent,
} from '../../../agent/guests/ownership/plan-ownership.js'
import { planBegin, planCancel, planSwitch, type GuestOwner } from '../../../gateway/fleet/placement/plan-owner.js'

/*
 * A model of one guest that moves between hosts. It calls the product's own functions. Messages can be lost, repeated and
 * late: each message that was ever possible can be delivered at any later time, any number of times, or never. Gateways
 * have no state besides the store, so any number of them, also paused ones, behave like these messages. Agents journal
 * each event, so a crash of an agent only delays it; a crash of a host also ends its guests.
 */

/** `whole`: the guest's newest disk; `stale`: the guest has run elsewhere since; `partial`: a transfer is incomplete. */
type Copy = 'none' | 'partial' | 'whole' | 'stale'

interface HostCopy {
  readonly ownership: Ownership
  readonly isRunning: boolean
  readonly copy: Copy
  /** True if the target has confirmed the last transfer. */
  readonly isSent: boolean
}

interface BegunMove {
  readonly from: number
  readonly to: number
  readonly generation: number
  /** True if the source has ever reported that it handed the guest over. */
  readonly isHandedOver: boolean
}

export interface World {
  readonly store: GuestOwner
  readonly moves: readonly BegunMove[]
  /** The owner of each generation that the store has ever contained. */
  readonly owners: readonly number[]
  readonly hosts: readonly HostCopy[]
}

/** The product's functions and rules. Tests replace one of them to plant a fault. */
export const productRules = {
  planOwnership,
  mayStart,
  planBegin,
  planSwitch,
  planCancel,
  /** True if the source may make the last transfer. */
  maySend: ({ isRunning }: Pick<HostCopy, 'isRunning'>): boolean => !isRunning,
  /** True if the source may report the guest as handed over. */
  mayHandOver: ({ isRunning, isSent }: Pick<HostCopy, 'isRunning' | 'isSent'>): boolean => !isRunning && isSent,
  /** True if the gateway may switch the owner. */
  maySwitch: ({ isHandedOver }: Pick<BegunMove, 'isHandedOver'>): boolean => isHandedOver,
  /** Generation that a host remembers after it has deleted its copy. */
  rememberedGeneration: (generation: number): number => generation,
}
export type Rules = typeof productRules

export interface Step {
  readonly name: string
  readonly next: World
  /** False for steps that nobody has to take: new moves and crashes. */
  readonly isProgress: boolean
}

export class Violation extends Error {}

export function firstWorld(hosts: number): World {
  const absent: HostCopy = { ownership: unknownOwnership, isRunning: false, copy: 'none', isSent: false }
  const owner: HostCopy = { ownership: firstOwnership, isRunning: true, copy: 'whole', isSent: false }
  return {
    store: { hostId: '0', generation: 0 },
    moves: [],
    owners: [0],
    hosts: Array.from({ length: hosts }, (_, index) => (index === 0 ? owner : absent)),
  }
}

/** True if the guest runs on the host that the store names, and no move is undecided. */
export function isSettled({ store, hosts }: World): boolean {
  return !store.move && hosts[Number(store.hostId)]?.isRunning === true
}

/** @throws {Violation} if the guest runs twice */
export function checkWorld({ hosts }: World): void {
  if (hosts.filter(({ isRunning }) => isRunning).length > 1) throw new Violation('the guest runs twice')
}

/** Returns all possible next steps. @throws {Violation} if a step starts a copy without the newest disk */
export function stepsOf(world: World, rules: Rules, maxMoves: number): Step[] {
  return [
    ...(world.moves.length < maxMoves ? beginSteps(world, rules) : []),
    ...decisionSteps(world, rules),
    ...messageSteps(world, rules),
    ...world.hosts.flatMap((_, host) => hostSteps(world, rules, host)),
  ]
}

/** Returns the world after a crash of a host, which ends the guest there. */
export function crash(world: World, host: number): World {
  return world.hosts[host]?.isRunning ? withHost(world, host, { isRunning: false }) : world
}

function beginSteps(world: World, rules: Rules): Step[] {
  const pairs = world.hosts.flatMap((_, from) => world.hosts.map((__, to) => ({ from, to })))
  return pairs.flatMap(({ from, to }) => {
    const move = { id: String(world.moves.length), toHostId: String(to) }
    const store = rules.planBegin(world.store, String(from), move)
    if (!store) return []
    const begun = { from, to, generation: store.generation, isHandedOver: false }
    const next = { ...world, store, moves: [...world.moves, begun] }
    return [{ name: `begin ${from}→${to}`, next, isProgress: false }]
  })
}

/** Returns the decisions that any gateway may make about any move, with whatever state it last read from the store. */
function decisionSteps(world: World, rules: Rules): Step[] {
  return world.moves.flatMap((move, id) => {
    const switched = rules.maySwitch(move) ? rules.planSwitch(world.store, String(id)) : undefined
    const canceled = rules.planCancel(world.store, String(id))
    return [...decided(world, `switch ${id}`, switched), ...decided(world, `cancel ${id}`, canceled)]
  })
}

function decided(world: World, name: string, store: GuestOwner | undefined): Step[] {
  if (!store) return []
  const owners = [...world.owners]
  owners[store.generation] = Number(store.hostId)
  return [{ name, next: { ...world, store, owners }, isProgress: true }]
}

/** Messages to hosts: orders and reservations of all moves, and all owners that the store ever contained. */
function messageSteps(world: World, rules: Rules): Step[] {
  const ofMoves = world.moves.flatMap(({ from, to, generation }, id) => {
    const moveId = String(id)
    return [
      ...received(world, rules, from, { kind: 'leave', moveId, generation }),
      ...received(world, rules, to, { kind: 'expect', moveId, generation }),
    ]
  })
  const ofOwners = world.owners.flatMap((owner, generation) =>
    world.hosts.flatMap((_, host) =>
      received(world, rules, host, { kind: 'appoint', generation, isOwner: owner === host }),
    ),
  )
  return [...ofMoves, ...ofOwners]
}

function received(world: World, rules: Rules, host: number, event: OwnershipEvent): Step[] {
  const before = world.hosts[host]!
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
  const add = (name: string, next: World): void => void steps.push({ name: `${name} ${host}`, next, isProgress: true })
  if (rules.mayStart(at.ownership) && !at.isRunning && at.copy !== 'none') add('start', started(world, host))
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
  return { ...world, moves: world.moves.map((move, index) => (index === id ? { ...move, isHandedOver: true } : move)) }
}

/** The guest changes its disk as soon as it runs, so all other copies become stale. */
function started(world: World, host: number): World {
  if (world.hosts[host]!.copy !== 'whole') throw new Violation(`host ${host} starts a ${world.hosts[host]!.copy} copy`)
  const hosts = world.hosts.map((other, index) => {
    if (index === host) return { ...other, isRunning: true }
    return other.copy === 'whole' ? { ...other, copy: 'stale' as const } : other
  })
  return { ...world, hosts }
}

/** The last transfer: it may break, or the target confirms it. The source has stopped the guest before. */
function sent(world: World, rules: Rules, host: number): World[] {
  const source = world.hosts[host]!
  const { ownership, copy } = source
  const to = world.moves[Number(ownership.moveId)]?.to ?? -1
  const target = world.hosts[to]?.ownership
  if (!rules.maySend(source) || target?.role !== 'arriving' || target.moveId !== ownership.moveId) return []
  // A transfer that is repeated after a crash of the source has to be confirmed again.
  const broken = withHost(withHost(world, to, { copy: 'partial' }), host, { isSent: false })
  return [broken, withHost(withHost(world, to, { copy }), host, { isSent: true })]
}

function withHost(world: World, host: number, change: Partial<HostCopy>): World {
  return { ...world, hosts: world.hosts.map((one, index) => (index === host ? { ...one, ...change } : one)) }
}
