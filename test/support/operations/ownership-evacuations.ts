import { forgetSteps } from './ownership-incidents.js'
import {
  received,
  withHost,
  type EvacuatedGuest,
  type HostCopy,
  type Limits,
  type Rules,
  type Step,
  type World,
} from './ownership-model.js'

/*
 * Adds failed hosts to the model in ownership-model.ts. A failed host is off. A gateway makes another host the owner.
 * The new owner restores the guest from a backup, which can fail at any point. The failed host can return at any time.
 * It then starts the guest only after a gateway has checked whether another host owns the guest.
 */

/** Returns the steps of failed hosts and of restores. */
export function evacuationStepsOf(world: World, rules: Rules, limits: Limits): Step[] {
  const most = limits.evacuations ?? 0
  if (most === 0) return []
  return [
    ...(world.evacuations.length < most ? failSteps(world) : []),
    ...(world.evacuations.length < most ? evacuateSteps(world, rules) : []),
    ...world.evacuations.flatMap((evacuation, at) => restoreSteps(world, rules, { evacuation, at })),
    ...world.hosts.flatMap((_, host) => returnSteps(world, rules, host)),
    ...(limits.incidents === 0 ? forgetSteps(world) : []),
  ]
}

/** A host with the guest fails, and the operator turns it off. */
function failSteps(world: World): Step[] {
  return world.hosts.flatMap((at, host) => {
    if (at.isDown || at.isRemoved || host !== Number(world.store.hostId)) return []
    return [
      { name: `fail ${host}`, next: withHost(world, host, { isDown: true, isRunning: false }), isProgress: false },
    ]
  })
}

function evacuateSteps(world: World, rules: Rules): Step[] {
  const pairs = world.hosts.flatMap((_, from) => world.hosts.map((__, to) => ({ from, to })))
  return pairs.flatMap(({ from, to }) => {
    // Gateways first cancel the move of a failed host, and do not choose hosts that report a copy of the guest.
    const { isDown, ownership } = world.hosts[to]!
    if (!world.hosts[from]!.isDown || isDown || !rules.mayRestoreOn(ownership)) return []
    if (!world.moves.every((move) => isOver(rules, move, from)) || hasOpenEvacuation(world)) return []
    const moves = world.moves.map((move) => ({ ...move, isForgotten: true }))
    const store = rules.planEvacuate(world.store, String(from), String(to))
    if (!store) return []
    const owners = [...world.owners]
    owners[store.generation] = to
    const evacuations = [...world.evacuations, { from, to, generation: store.generation, state: 'ordered' } as const]
    return [
      { name: `evacuate ${from}→${to}`, next: { ...world, moves, store, owners, evacuations }, isProgress: false },
    ]
  })
}

function isOver(rules: Rules, { isForgotten, from, decided }: World['moves'][number], failed: number): boolean {
  const move = { fromHostId: String(from), isDecided: decided !== undefined }
  return isForgotten === true || rules.mayForgetMove(move, String(failed))
}

interface NumberedEvacuation {
  readonly evacuation: EvacuatedGuest
  readonly at: number
}

/** Returns the possible next steps of the restore on its target. A host that is off continues the restore later. */
function restoreSteps(world: World, rules: Rules, numbered: NumberedEvacuation): Step[] {
  const { to, generation, state } = numbered.evacuation
  const { ownership, isDown } = world.hosts[to]!
  const isOwn = ownership.role === 'owner' && ownership.generation === generation && !isDown
  // The order can arrive again. A gateway reads the owner in the store directly before it sends the order.
  const orders =
    world.store.generation === generation ? received(world, rules, to, { kind: 'restore', generation }) : []
  // A late request of an earlier move can make the target expect the guest. It then refuses the order.
  const isRefused = state === 'ordered' && !isDown && ownership.role === 'arriving' && ownership.generation < generation
  return [
    ...orders,
    ...(isRefused ? [{ name: `refuse ${to}`, next: withState(world, numbered.at, 'failed'), isProgress: true }] : []),
    ...(isOwn && state === 'ordered' ? operationSteps(world, numbered) : []),
    ...reinstateSteps(world, rules, numbered),
  ]
}

function operationSteps(world: World, { evacuation, at }: NumberedEvacuation): Step[] {
  const { from, to, generation } = evacuation
  const gone: Partial<HostCopy> = {
    copy: 'none',
    isRunning: false,
    ownership: { role: 'absent', generation, moveId: '' },
  }
  // The undo loses changes that the restored guest has made. The failed host's disk is then the newest again.
  const kept = world.hosts[from]!.copy === 'stale' ? withHost(world, from, { copy: 'whole' }) : world
  const undone = withState(withHost(kept, to, gone), at, 'failed')
  const next = world.hosts[to]!.copy === 'none' ? withHost(world, to, { copy: 'whole' }) : withState(world, at, 'done')
  return [
    { name: `restore at ${to}`, next, isProgress: true },
    { name: `undo at ${to}`, next: undone, isProgress: false },
  ]
}

function reinstateSteps(world: World, rules: Rules, { evacuation, at }: NumberedEvacuation): Step[] {
  const { from, to, generation, state } = evacuation
  const evacuated = { fromHostId: String(from), toHostId: String(to), generation }
  const store = rules.mayReinstate(state) ? rules.planReinstate(world.store, evacuated) : undefined
  if (!store) return []
  const owners = [...world.owners]
  owners[store.generation] = from
  return [
    {
      name: `reinstate ${from}`,
      next: withState({ ...world, store, owners }, at, 'reinstated'),
      isProgress: true,
    },
  ]
}

function withState(world: World, at: number, state: EvacuatedGuest['state']): World {
  const evacuations = world.evacuations.map((one, index) => (index === at ? { ...one, state } : one))
  return { ...world, evacuations }
}

/** True while the guest is being restored, or after a failed restore until the failed host is the owner again. */
export function hasOpenEvacuation({ evacuations }: Pick<World, 'evacuations'>): boolean {
  return evacuations.some(({ state }) => state === 'ordered' || state === 'failed')
}

/** A failed host returns. Before it starts the guest, a gateway tells it whether the guest belongs to another host. */
function returnSteps(world: World, rules: Rules, host: number): Step[] {
  const at = world.hosts[host]!
  if (at.isDown)
    return [
      {
        name: `return ${host}`,
        next: withHost(world, host, { isDown: false, isWaiting: rules.waitsForOwners() }),
        isProgress: true,
      },
    ]
  const { hostId, generation } = world.store
  const isOutdated = host !== Number(hostId) && at.ownership.generation < generation
  const event = { kind: 'appoint', generation, isOwner: false, keepsCopy: rules.keepsCopies() } as const
  const isNeeded = isOutdated && rules.isTold(at.ownership)
  const isMoving = world.moves.some(({ from, isForgotten }) => from === host && !isForgotten)
  const fenced = isNeeded && !isMoving ? received(world, rules, host, event) : []
  const next = fenced[0]?.next ?? world
  const steps = fenced.map((step) => ({ ...step, name: `fence ${host}` }))
  if (!at.isWaiting) return steps
  return [...steps, { name: `confirm ${host}`, next: withHost(next, host, { isWaiting: false }), isProgress: true }]
}
