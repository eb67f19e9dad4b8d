import type { Guest, GuestLimits, GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, notFound } from '../../../shared/errors.js'
import type { AgentFeature } from '../../../shared/agent-features.js'
import { noLabels } from '../../../shared/label-rules.js'
import { isPlaced, noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import type { HostView } from '../contract.js'
import { planShortage } from './plan-shortage.js'
import { noNeighbors, ruleChecks, type Neighbors } from './plan-rules.js'
import {
  addAllocation,
  findExceeded,
  noAllocation,
  planShares,
  type Allocation,
  type Ratios,
} from '../../../shared/allocation.js'

/** A host that can be chosen, and its resources that are already allocated. */
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

interface PlacementFacts {
  readonly ratios: Ratios
  /** Requested host. Absent: any host can be chosen. */
  readonly hostId?: string | undefined
  /** Other guests to which the placement rules of the guest refer. Default: there are none. */
  readonly neighbors?: Neighbors
  /** True if the guest's disk is restored from a backup, so that no template or disk of another host is needed. */
  readonly isFromBackup?: boolean
  /** True if the host receives the guest's disk as an archive. */
  readonly isFromArchive?: boolean
  /** True if the new guest has a firewall or a backup schedule from its creation on. */
  readonly hasSettings?: boolean
}

/**
 * Chooses hosts for a new guest: the requested host, or all hosts with enough resources. Sorts them by the number of
 * guests that must stay together with the guest, and then by load.
 * @returns ids of at least one host
 * @throws {BerthError} `not_found` (host or template), `host_offline`, `invalid_state` (draining), `unsupported` (no
 * host can run such guests), `image_disabled`, `agent_outdated`, `placement_group`, `placement_label`,
 * `placement_spread`, `placement_together`, `resource_exhausted`
 */
export function planPlacement(
  spec: Pick<GuestSpec, 'virtualization' | 'templateId' | 'limits' | 'placement'> &
    Partial<Pick<GuestSpec, 'tags' | 'importId'>>,
  candidates: readonly Candidate[],
  { ratios, hostId, neighbors = noNeighbors, ...facts }: PlacementFacts,
): string[] {
  const named = hostId === undefined ? candidates : candidates.filter(({ host }) => host.id === hostId)
  if (hostId !== undefined && named.length === 0) throw notFound('host')
  const { isFromBackup = false, isFromArchive = false, hasSettings = false } = facts
  const limits = spec.limits ?? noAllocation
  const able = [
    [({ host }) => host.state === 'online', () => offline(hostId)],
    [({ host }) => !host.draining, () => draining()],
    [(candidate) => canRun(candidate, spec.virtualization), () => unsupported()],
    ...sourceConditions(spec, isFromBackup, named[0]),
    [({ host }) => !isFromArchive || hasFeature(host, 'import-archive'), () => cannotImport(named[0]?.host.name)],
    [({ host }) => keepsTags(host, spec.tags), () => cannotLabel(named[0]?.host.name)],
    [({ host }) => !hasSettings || keepsSettings(host), () => cannotSet(named[0]?.host.name)],
    ...ruleConditions(spec.placement, neighbors),
    [
      (candidate) => fits(candidate, limits, ratios),
      (left) =>
        planShortage(bestFirst(left, limits, { ratios, neighbors })[0]!, limits, { ratios, rules: spec.placement }),
    ],
  ] satisfies Condition[]
  const left = filterAble(named, able)
  const ranked = bestFirst(left, limits, { ratios, neighbors })
  const first = spec.virtualization === 'kvm' ? ranked.filter(isAccelerated) : ranked
  return [...first, ...ranked.filter((candidate) => !first.includes(candidate))].map(({ host }) => host.id)
}

/** Conditions for hosts that follow from the source of the guest's disk: an import, a backup or a template. */
function sourceConditions(
  { templateId, importId }: Pick<GuestSpec, 'templateId'> & Partial<Pick<GuestSpec, 'importId'>>,
  isFromBackup: boolean,
  first: Candidate | undefined,
): Condition[] {
  if (importId) return []
  return isFromBackup ? backupConditions(first) : templateConditions(templateId)
}

function templateConditions(id: string): Condition[] {
  return [
    [({ findTemplate }) => findTemplate(id) !== undefined, () => notFound('template')],
    [({ findTemplate }) => findTemplate(id)?.unsupported === '', () => unusable()],
    [({ findTemplate }) => !findTemplate(id)?.disabled, () => disabled()],
  ]
}

function backupConditions(first: Candidate | undefined): Condition[] {
  const knowsBackups = ({ host }: Candidate) => host.description?.features.includes('create-from-backup') ?? false
  return [[knowsBackups, () => cannotCreateFromBackup(first?.host.name)]]
}

/** False if the host would ignore the tags of a new guest, because its agent does not know them. */
function keepsTags({ description }: HostView, tags: readonly string[] = []): boolean {
  return tags.length === 0 || (description?.features.includes('create-tags') ?? false)
}

/** False if the host would ignore the firewall and the backup schedule of a new guest. */
function keepsSettings({ description }: HostView): boolean {
  return description?.features.includes('create-settings') ?? false
}

/** Conditions of a guest's placement rules. The first condition excludes hosts whose agents would lose the rules. */
function ruleConditions(rules: PlacementRules = noPlacement, neighbors: Neighbors): Condition[] {
  if (!isPlaced(rules)) return []
  return [
    [(candidate) => keepsMarks(candidate, { placement: rules }), () => cannotLabel(undefined)],
    ...ruleChecks(rules, neighbors).map(({ allows, refusal }): Condition => [({ host }) => allows(host), refusal]),
  ]
}

/** A condition, and the error if it excludes all of the candidates that are left. */
type Condition = readonly [(candidate: Candidate) => boolean, (left: readonly Candidate[]) => BerthError]

/**
 * Returns the candidates that fulfill all conditions.
 * @throws the error of the condition that excludes the last candidate
 */
function filterAble(candidates: readonly Candidate[], conditions: readonly Condition[]): readonly Candidate[] {
  let left = candidates
  for (const [may, problem] of conditions) {
    const able = left.filter(may)
    if (able.length === 0) throw problem(left)
    left = able
  }
  return left
}

/**
 * Returns all hosts to which a guest can move (at least one), in the order of `planPlacement`. A move needs no
 * template.
 * @param candidates all hosts except the guest's present host
 * @throws {BerthError} `not_found`, `host_offline`, `invalid_state` (draining), `move_unsupported`, `agent_outdated`,
 * `placement_group`, `placement_label`, `placement_spread`, `placement_together`, `resource_exhausted`
 */
export function planMoveTargets(
  guest: Pick<Guest, 'virtualization' | 'limits' | 'labels' | 'deletion'> & {
    readonly placement?: PlacementRules | undefined
  },
  candidates: readonly Candidate[],
  { ratios, hostId, neighbors = noNeighbors, isFromBackup = false }: PlacementFacts,
): string[] {
  const named = hostId === undefined ? candidates : candidates.filter(({ host }) => host.id === hostId)
  if (hostId !== undefined && named.length === 0) throw notFound('host')
  const limits = guest.limits ?? noAllocation
  const needed = addAllocation(limits, neighbors.following)
  const left = filterAble(named, [
    [({ host }) => host.state === 'online', () => offline(hostId)],
    [({ host }) => !host.draining, () => draining()],
    ...(isFromBackup ? backupConditions(named[0]) : [receiveCondition(guest.virtualization, named[0])]),
    [(candidate) => keepsMarks(candidate, guest), () => cannotLabel(named[0]?.host.name)],
    [(candidate) => canRun(candidate, guest.virtualization), () => unsupported()],
    ...ruleConditions(guest.placement, neighbors),
    [
      (candidate) => fits(candidate, needed, ratios),
      (able) =>
        planShortage(bestFirst(able, needed, { ratios, neighbors })[0]!, needed, { ratios, rules: guest.placement }),
    ],
  ])
  return bestFirst(left, limits, { ratios, neighbors }).map(({ host }) => host.id)
}

function receiveCondition(virtualization: string, first: Candidate | undefined): Condition {
  return [({ host }) => canReceive(host, virtualization), () => cannotMove(first?.host.name)]
}

function canReceive({ description }: HostView, virtualization: string): boolean {
  return description?.features.includes(virtualization === 'kvm' ? 'move-offline' : 'move') ?? false
}

/** Sorts hosts by the number of guests that must stay together with the guest, and then by load. */
function bestFirst(
  candidates: readonly Candidate[],
  limits: RequestedLimits,
  { ratios, neighbors: { together } }: Required<Pick<PlacementFacts, 'ratios' | 'neighbors'>>,
): Candidate[] {
  const ranked = candidates.map((candidate) => {
    const { id } = candidate.host
    return { candidate, id, partners: together.get(id) ?? 0, load: planLoad(candidate, ratios, limits) }
  })
  ranked.sort((a, b) => b.partners - a.partners || a.load - b.load || (a.id < b.id ? -1 : 1))
  return ranked.map(({ candidate }) => candidate)
}

type RequestedLimits = Pick<GuestLimits, 'vcpuMilli' | 'ramMb' | 'diskGb'>

function fits({ host, allocated }: Candidate, wanted: RequestedLimits, ratios: Ratios): boolean {
  return findExceeded(addAllocation(allocated, wanted), host.description?.capacity, ratios) === undefined
}

type HostLoad = Pick<Candidate, 'host' | 'allocated'>

/**
 * Returns the highest load of the host's resources. The load of a resource is its allocated fraction, divided by its
 * overcommit ratio (16 if the ratio is unlimited).
 * @param added resources of a further guest
 */
export function planLoad({ host, allocated }: HostLoad, ratios: Ratios, added: Allocation = noAllocation): number {
  const shares = planShares(addAllocation(allocated, added), host.description?.capacity)
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

/** Error for a host whose agent is too old to create guests from backups. */
export function cannotCreateFromBackup(name: string | undefined): BerthError {
  const message = `the agent of ${name ?? 'the host'} is too old to create containers from backups: upgrade it first`
  return new BerthError('conflict', 'agent_outdated', message)
}

export function cannotImport(name: string | undefined): BerthError {
  const message = `the agent of ${name ?? 'the host'} is too old to create containers from archives: upgrade it first`
  return new BerthError('conflict', 'agent_outdated', message)
}

function hasFeature({ description }: HostView, feature: AgentFeature): boolean {
  return description?.features.includes(feature) ?? false
}

/** False if the host would lose labels, rules or the deletion of the guest, because its agent does not know them. */
function keepsMarks({ host }: Candidate, { labels, deletion, placement = noPlacement }: GuestMarks): boolean {
  const { tags, note, deleteProtected } = labels ?? noLabels
  const isLabelled = tags.length > 0 || note !== '' || deleteProtected
  const has = (feature: string): boolean => host.description?.features.includes(feature) ?? false
  return (!isLabelled || has('labels')) && (!deletion || has('undelete')) && (!isPlaced(placement) || has('placement'))
}

type GuestMarks = Partial<Pick<Guest, 'labels' | 'deletion'>> & { readonly placement?: PlacementRules | undefined }

/** Error for a host whose agent is too old for the labels, the placement rules or the deletion of a guest. */
export function cannotLabel(name: string | undefined): BerthError {
  const message = `the agent of ${name ?? 'the host'} is too old for the labels, the placement rules or the deletion of this container: upgrade it first`
  return new BerthError('conflict', 'agent_outdated', message)
}

function cannotSet(name: string | undefined): BerthError {
  const message = `the agent of ${name ?? 'the host'} is too old for a firewall or a backup schedule at the creation: upgrade it first`
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

/** The copy of a guest needs no space in addition to the guest on the host of its standby: it becomes the disk. */
export function withoutCopy(
  candidates: readonly Candidate[],
  { limits, standby }: Pick<Guest, 'limits' | 'standby'>,
): Candidate[] {
  return candidates.map((candidate) => {
    const { host, allocated } = candidate
    if (!limits || host.id !== standby?.hostId) return candidate
    const copiedGb = Math.min(limits.diskGb, host.metrics?.standbyDiskGb ?? 0)
    return { ...candidate, allocated: { ...allocated, diskGb: Math.max(0, allocated.diskGb - copiedGb) } }
  })
}
