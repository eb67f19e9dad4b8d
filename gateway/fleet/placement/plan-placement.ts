import type { Guest, GuestLimits, GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, notFound } from '../../../shared/errors.js'
import { noLabels } from '../../../shared/label-rules.js'
import type { HostView } from '../contract.js'
import { addAllocation, findExceeded, planShares, type Allocation, type Ratios } from '../../../shared/allocation.js'

/** A host that may be chosen, and its resources that are already allocated. */
export interface Candidate {
  readonly host: HostView
  readonly findTemplate: (id: string) => Usable | undefined
  readonly allocated: Allocation
}

/** Facts that decide whether a host can create guests from a template. */
export interface Usable {
  readonly disabled: boolean
  /** Reason why the host cannot use the template. Empty: the host can use it. */
  readonly unsupported: string
}

/**
 * Chooses hosts for a new guest: the requested host, or without one all hosts with enough resources, the least loaded
 * first.
 * @returns ids of at least one host
 * @throws {BerthError} `not_found` (host or template), `host_offline`, `invalid_state` (draining), `unsupported` (no
 * host can run such guests), `image_disabled`, `resource_exhausted`
 */
export function planPlacement(
  spec: Pick<GuestSpec, 'virtualization' | 'templateId' | 'limits'>,
  candidates: readonly Candidate[],
  ratios: Ratios,
  hostId?: string,
): string[] {
  const named = hostId === undefined ? candidates : candidates.filter(({ host }) => host.id === hostId)
  if (hostId !== undefined && named.length === 0) throw notFound('host')
  const limits = spec.limits ?? { vcpuMilli: 0, ramMb: 0, diskGb: 0 }
  const able = [
    [({ host }) => host.state === 'online', () => offline(hostId)],
    [({ host }) => !host.draining, () => draining()],
    [(candidate) => canRun(candidate, spec.virtualization), () => unsupported()],
    [({ findTemplate }) => findTemplate(spec.templateId) !== undefined, () => notFound('template')],
    [({ findTemplate }) => findTemplate(spec.templateId)?.unsupported === '', () => unusable()],
    [({ findTemplate }) => !findTemplate(spec.templateId)?.disabled, () => disabled()],
    [(candidate) => fits(candidate, limits, ratios), () => exhausted()],
  ] satisfies Condition[]
  const left = filterAble(named, able)
  const ranked = emptiestFirst(left, limits, ratios)
  const first = spec.virtualization === 'kvm' ? ranked.filter(isAccelerated) : ranked
  return [...first, ...ranked.filter((candidate) => !first.includes(candidate))].map(({ host }) => host.id)
}

type Condition = readonly [(candidate: Candidate) => boolean, () => BerthError]

/** Returns the candidates that fulfil all conditions. @throws the error of the condition that excludes the last one */
function filterAble(candidates: readonly Candidate[], conditions: readonly Condition[]): readonly Candidate[] {
  let left = candidates
  for (const [may, problem] of conditions) {
    left = left.filter(may)
    if (left.length === 0) throw problem()
  }
  return left
}

/**
 * Returns the hosts to which a guest can move, the least loaded first, at least one. A move needs no template.
 * @param candidates all hosts except the present one
 * @throws {BerthError} `not_found`, `host_offline`, `invalid_state` (draining), `move_unsupported`,
 * `agent_outdated`, `resource_exhausted`
 */
export function planMoveTargets(
  guest: Pick<Guest, 'virtualization' | 'limits' | 'labels' | 'deletion'>,
  candidates: readonly Candidate[],
  ratios: Ratios,
  hostId?: string,
): string[] {
  const named = hostId === undefined ? candidates : candidates.filter(({ host }) => host.id === hostId)
  if (hostId !== undefined && named.length === 0) throw notFound('host')
  const limits = guest.limits ?? { vcpuMilli: 0, ramMb: 0, diskGb: 0 }
  const left = filterAble(named, [
    [({ host }) => host.state === 'online', () => offline(hostId)],
    [({ host }) => !host.draining, () => draining()],
    [({ host }) => canReceive(host, guest.virtualization), () => cannotMove(named[0]?.host.name)],
    [(candidate) => keepsMarks(candidate, guest), () => cannotLabel(named[0]?.host.name)],
    [(candidate) => canRun(candidate, guest.virtualization), () => unsupported()],
    [(candidate) => fits(candidate, limits, ratios), () => exhausted()],
  ])
  return emptiestFirst(left, limits, ratios).map(({ host }) => host.id)
}

function canReceive({ description }: HostView, virtualization: string): boolean {
  return description?.features.includes(virtualization === 'kvm' ? 'move-offline' : 'move') ?? false
}

function emptiestFirst(candidates: readonly Candidate[], limits: RequestedLimits, ratios: Ratios): Candidate[] {
  const ranked = candidates.map((candidate) => ({ candidate, load: spread(candidate, limits, ratios) }))
  ranked.sort((a, b) => a.load - b.load || (a.candidate.host.id < b.candidate.host.id ? -1 : 1))
  return ranked.map(({ candidate }) => candidate)
}

type RequestedLimits = Pick<GuestLimits, 'vcpuMilli' | 'ramMb' | 'diskGb'>

function fits({ host, allocated }: Candidate, wanted: RequestedLimits, ratios: Ratios): boolean {
  return findExceeded(addAllocation(allocated, wanted), host.description?.capacity, ratios) === undefined
}

/**
 * For each resource, divides the host's allocated fraction, with the new guest, by the overcommit ratio (16 if the
 * ratio is unlimited). Returns the highest result.
 */
function spread({ host, allocated }: Candidate, wanted: RequestedLimits, ratios: Ratios): number {
  const shares = planShares(addAllocation(allocated, wanted), host.description?.capacity)
  return Math.max(...shares.map(({ share, kind }) => share / (ratios[kind] || 16)))
}

/** True if the host runs virtual machines with hardware acceleration, which makes them about ten times faster. */
function isAccelerated({ host }: Candidate): boolean {
  return host.description?.capabilities?.kvmAcceleration === 'kvm'
}

function canRun({ host }: Candidate, virtualization: string): boolean {
  const capabilities = host.description?.capabilities
  return Boolean(virtualization === 'kvm' ? capabilities?.kvm : capabilities?.lxc)
}

function offline(hostId: string | undefined): BerthError {
  const message = hostId === undefined ? 'no host is online' : `host ${hostId} is not online`
  return new BerthError('unavailable', 'host_offline', message)
}

/** Error for a host whose agent is too old to send or receive guests. */
export function cannotMove(name: string | undefined): BerthError {
  const message = `the agent of ${name ?? 'the host'} is too old for this move: upgrade it first`
  return new BerthError('conflict', 'move_unsupported', message)
}

/** False if the host would lose labels or the deletion of the guest, because its agent does not know them. */
function keepsMarks({ host }: Candidate, { labels, deletion }: Pick<Guest, 'labels' | 'deletion'>): boolean {
  const { tags, note, deleteProtected } = labels ?? noLabels
  const isLabelled = tags.length > 0 || note !== '' || deleteProtected
  const has = (feature: string): boolean => host.description?.features.includes(feature) ?? false
  return (!isLabelled || has('labels')) && (!deletion || has('undelete'))
}

/** Error for a host whose agent is too old for labels of guests. */
export function cannotLabel(name: string | undefined): BerthError {
  const message = `the agent of ${name ?? 'the host'} is too old for the labels or the deletion of this container: upgrade it first`
  return new BerthError('conflict', 'agent_outdated', message)
}

function draining(): BerthError {
  return new BerthError('conflict', 'invalid_state', 'the host is draining and accepts no new containers')
}

function unsupported(): BerthError {
  return new BerthError('invalid', 'unsupported', 'no available host supports this virtualization', {
    field: 'virtualization',
  })
}

function unusable(): BerthError {
  return new BerthError('invalid', 'unsupported', 'template_id: no available host can use this template', {
    field: 'template_id',
  })
}

function disabled(): BerthError {
  return new BerthError('conflict', 'image_disabled', 'template_id: the image is disabled', {
    field: 'template_id',
  })
}

function exhausted(): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', 'no host has enough free resources for the container')
}
