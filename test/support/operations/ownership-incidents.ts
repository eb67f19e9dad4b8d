import { unknownOwnership } from '../../../agent/guests/ownership/plan-ownership.js'
import {
  received,
  withHost,
  withMove,
  type HostCopy,
  type HostImage,
  type Limits,
  type Rules,
  type Step,
  type World,
} from './ownership-model.js'

/* Adds incidents to the model in ownership-model.ts: an operator restores or removes a host. */

/** Returns the possible incidents, and further steps that exist only because of incidents (see ownership-model.ts). */
export function incidentStepsOf(world: World, rules: Rules, limits: Limits): Step[] {
  if (limits.incidents === 0) return []
  const incidents =
    world.incidents < limits.incidents ? world.hosts.flatMap((_, host) => incidentSteps(world, host)) : []
  return [...incidents, ...forgetSteps(world), ...fenceSteps(world, rules)]
}

/** Marks moves as forgotten when both hosts know the decision. Gateways send no new messages about such moves. */
export function forgetSteps(world: World): Step[] {
  return world.moves.flatMap(({ from, to, decided: generation, isForgotten }, id) => {
    const knows = ({ ownership, isRemoved }: HostCopy): boolean => isRemoved || ownership.generation >= generation!
    if (isForgotten || generation === undefined || ![from, to].every((host) => knows(world.hosts[host]!))) return []
    return [
      { name: `forget ${id}`, next: { ...world, moves: withMove(world, id, { isForgotten: true }) }, isProgress: true },
    ]
  })
}

/** Steps of an operator: copy a host's disk, restore a host from a copy, or remove a host that reports no guest. */
function incidentSteps(world: World, host: number): Step[] {
  const at = world.hosts[host]!
  const { role } = at.ownership
  const steps: Step[] = []
  const add = (name: string, next: World): void => void steps.push({ name: `${name} ${host}`, next, isProgress: false })
  if (at.isRemoved) return steps
  const incidents = world.incidents + 1
  if (!world.image && ['absent', 'owner', 'leaving'].includes(role))
    add('image of', { ...world, image: { host, copy: at } })
  if (world.image?.host === host && survives(world, world.image))
    add('restore', { ...withHost(world, host, restored(world.image)), incidents })
  if (role !== 'absent' && role !== 'arriving') return steps
  const gone = { ownership: unknownOwnership, isRunning: false, copy: 'none', isSent: false, isRemoved: true } as const
  add('remove', { ...withHost(world, host, gone), incidents })
  return steps
}

/** True if the guest survives the loss of the host's present disk, as the image or another host has the guest. */
function survives({ hosts }: World, { host, copy }: HostImage): boolean {
  const has = ({ ownership: { role }, copy: disk }: HostCopy): boolean =>
    ['owner', 'leaving', 'handed_over'].includes(role) && disk !== 'none' && disk !== 'stale'
  return copy.ownership.role !== 'absent' || hosts.some((other, index) => index !== host && has(other))
}

/** Returns the state of a restored host. The host's journal may lack the last transfer, which is then repeated. */
function restored({ copy }: HostImage): HostCopy {
  const isPresent = copy.copy === 'whole' || copy.copy === 'stale' || copy.copy === 'restored'
  return { ...copy, copy: isPresent ? 'restored' : copy.copy, isRunning: false, isSent: false, isRestored: true }
}

/** Steps in which a gateway tells a host that another host owns the guest. A restored host may not know this. */
function fenceSteps(world: World, rules: Rules): Step[] {
  const { store, moves, hosts } = world
  if (!rules.fences()) return []
  return hosts.flatMap(({ ownership: { role } }, host) => {
    const isNeeded = moves.some(({ from, isForgotten }) => from === host && !isForgotten)
    if (host === Number(store.hostId) || isNeeded) return []
    const isProgress = role === 'owner' || role === 'leaving'
    const event = { kind: 'appoint', generation: store.generation, isOwner: false } as const
    return received(world, rules, host, event).map((step) => ({ ...step, name: `fence ${host}`, isProgress }))
  })
}
