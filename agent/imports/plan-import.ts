import { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, invalidField } from '../../shared/errors.js'
import { checkGuestName, defaultSnapshotLimit, limits as ranges } from '../../shared/guest-rules.js'
import { checkInteger } from '../../shared/field-checks.js'
import type { ForeignContainer, ForeignMapping, ImportChoices, ImportNote } from './contract.js'

const gib = 1024 ** 3
/** Limits of a guest whose original container has no limits. */
const usual = { vcpuMilli: 1000, ramMb: 1024 } as const
/** Free space in bytes on a disk whose size is computed from the size of its files. */
const spareBytes = gib
/** Assumed ratio of the size of unpacked files to the size of their archive. */
const unpackedRatio = 5
const sshPort = 22

export interface ImportFacts {
  /** Bytes that the container's files use. For an archive: the size of the archive. */
  readonly usedBytes: number
  /** True if the files are in an archive, whose content may need more space. */
  readonly isArchive: boolean
  /** True if no guest and no program of the host uses these ports, and the host may map them. */
  readonly isFree: (mapping: ForeignMapping) => boolean
  /** True if the host has this address, and no guest has it. */
  readonly hasAddress: (address: string) => boolean
}

export interface GuestPlan {
  readonly name: string
  /** Specification of the guest. `importId` is still empty. */
  readonly spec: GuestSpec
  readonly notes: readonly ImportNote[]
}

/**
 * Plans the guest that replaces a container.
 * @throws {BerthError} `invalid_field`; `import_refused` if the container must not be imported now
 */
export function planGuest(foreign: ForeignContainer, choices: ImportChoices, facts: ImportFacts): GuestPlan {
  const { refusal } = foreign
  if (refusal !== undefined) throw importRefused(refusal)
  const notes: ImportNote[] = []
  const spec = GuestSpec.create({
    virtualization: 'lxc',
    limits: planLimits(foreign, choices, facts, notes),
    assignNat: true,
    portMappings: planMappings(foreign, facts, notes),
    devices: [...new Set(foreign.devices)],
    tags: [...(foreign.tags ?? [])],
    start: choices.start ?? false,
    snapshotLimit: defaultSnapshotLimit,
  })
  for (const address of foreign.addresses)
    notes.push({ part: `address ${address}`, reason: 'the guest gets a private address of this host' })
  return { name: planName(foreign, choices), spec, notes: [...notes, ...foreign.notes] }
}

export function importRefused(reason: string): BerthError {
  return new BerthError('conflict', 'import_refused', `the container cannot be imported: ${reason}`)
}

function planName({ name: own }: ForeignContainer, { name = own }: ImportChoices): string {
  try {
    checkGuestName(name)
  } catch (error) {
    if (!(error instanceof BerthError)) throw error
    throw invalidField('name', `${error.message}; choose another name with --name`)
  }
  return name
}

function planLimits(
  foreign: ForeignContainer,
  choices: ImportChoices,
  facts: ImportFacts,
  notes: ImportNote[],
): NonNullable<GuestSpec['limits']> {
  const rate = foreign.networkMbps ?? 0
  return {
    vcpuMilli: planVcpu(foreign, choices, notes),
    ramMb: planRam(foreign, choices, notes),
    diskGb: planDisk(foreign, choices, facts, notes),
    networkDownMbps: 0,
    networkUpMbps: Math.min(rate, ranges.networkMbps.max),
    ioReadMbps: 0,
    ioWriteMbps: 0,
    ...foreign.rates,
  }
}

function planVcpu({ vcpuMilli }: ForeignContainer, { vcpu }: ImportChoices, notes: ImportNote[]): number {
  if (vcpu !== undefined) return checkInteger('vcpu', Math.round(vcpu * 1000), ranges.vcpuMilli)
  if (vcpuMilli === undefined)
    notes.push({
      part: 'processors',
      reason: 'the container has no processor limit, so the guest gets 1 processor: choose the number with --vcpu',
    })
  return clamp({ part: 'processors', value: vcpuMilli ?? usual.vcpuMilli, range: ranges.vcpuMilli }, notes)
}

function planRam({ ramMb: own }: ForeignContainer, { ramMb }: ImportChoices, notes: ImportNote[]): number {
  if (ramMb !== undefined) return checkInteger('ram', ramMb, ranges.ramMb)
  if (own === undefined)
    notes.push({
      part: 'memory',
      reason: `the container has no memory limit, so the guest gets ${usual.ramMb} MB: choose the size with --ram`,
    })
  return clamp({ part: 'memory', value: own ?? usual.ramMb, range: ranges.ramMb }, notes)
}

/** @throws {BerthError} `disk_too_small` */
function planDisk(
  { diskBytes }: ForeignContainer,
  { diskGb }: ImportChoices,
  { usedBytes, isArchive }: ImportFacts,
  notes: ImportNote[],
): number {
  const needed = Math.ceil((usedBytes * (isArchive ? unpackedRatio : 1) + spareBytes) / gib)
  if (diskGb === undefined && diskBytes === undefined)
    notes.push({
      part: 'disk',
      reason: `the container has no disk limit, so the guest gets ${needed} GB: choose the size with --disk`,
    })
  const own = diskBytes === undefined ? needed : Math.ceil(diskBytes / gib)
  const size =
    diskGb === undefined
      ? clamp({ part: 'disk', value: own, range: ranges.diskGb }, notes)
      : checkInteger('disk', diskGb, ranges.diskGb)
  if (usedBytes <= size * gib) return size
  const message = `disk: the files of the container use ${Math.ceil(usedBytes / gib)} GB: choose a larger disk with --disk`
  throw new BerthError('conflict', 'disk_too_small', message, { field: 'disk' })
}

interface LimitClamp {
  readonly part: string
  readonly value: number
  readonly range: { readonly min: number; readonly max: number }
}

function clamp({ part, value, range: { min, max } }: LimitClamp, notes: ImportNote[]): number {
  const clamped = Math.min(max, Math.max(min, value))
  if (clamped !== value)
    notes.push({ part, reason: `the value must be from ${min} to ${max}, so the guest gets ${clamped}` })
  return clamped
}

type WireMapping = GuestSpec['portMappings'][number]

/** Plans the mappings. Adds a mapping for SSH if the container has none. Replaces host ports in use by free ports. */
function planMappings(foreign: ForeignContainer, facts: ImportFacts, notes: ImportNote[]): WireMapping[] {
  const { max } = ranges.portMappings
  const first = foreign.mappings.slice(0, max)
  const hasSsh = first.some(({ protocol, containerPort }) => protocol === 'tcp' && containerPort === sshPort)
  const all = hasSsh ? first : first.slice(0, max - 1)
  if (all.length < foreign.mappings.length)
    notes.push({
      part: 'port mappings',
      reason: `a guest can have at most ${max}, and one of them must be for SSH: the last ones are left out`,
    })
  const mappings = all.map((mapping) => planMapping(mapping, facts, notes))
  return hasSsh ? mappings : [...mappings, { ...noMapping, containerPort: sshPort, description: 'ssh' }]
}

const noMapping: WireMapping = {
  containerPort: 0,
  containerPortEnd: 0,
  hostPort: 0,
  hostPortEnd: 0,
  hostIp: '',
  protocol: 'tcp',
  description: '',
}

function planMapping(foreign: ForeignMapping, facts: ImportFacts, notes: ImportNote[]): WireMapping {
  const { protocol, containerPort, length, description = '' } = foreign
  const hostIp = foreign.hostIp === '' || facts.hasAddress(foreign.hostIp) ? foreign.hostIp : ''
  const part = `${protocol} port ${describe(foreign.hostPort, length)}`
  if (hostIp !== foreign.hostIp)
    notes.push({
      part,
      reason: `${foreign.hostIp} is not an address of the host: the mapping applies to all addresses of the host`,
    })
  const isKept = facts.isFree({ ...foreign, hostIp })
  if (!isKept)
    notes.push({
      part,
      reason: 'the host port is in use or outside the port range of the host: the guest gets another host port',
    })
  const hostPort = isKept ? foreign.hostPort : 0
  const isRange = length > 1
  return {
    ...noMapping,
    protocol,
    description,
    hostIp,
    containerPort,
    hostPort,
    containerPortEnd: isRange ? containerPort + length - 1 : 0,
    hostPortEnd: isRange && isKept ? hostPort + length - 1 : 0,
  }
}

function describe(first: number, length: number): string {
  return length === 1 ? String(first) : `${first}-${first + length - 1}`
}
