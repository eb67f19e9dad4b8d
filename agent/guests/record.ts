import { defaultSnapshotLimit, hostnameOf } from '../../shared/guest-rules.js'
import type { Machine } from '../drivers/contract.js'
import type { DriverKind, MachineSettings } from '../drivers/drivers.js'
import { gateway6 } from '../network/addresses/plan-host.js'
import type { Firewall } from '../../shared/firewall-rules.js'

export type GuestStatus =
  'creating' | 'starting' | 'running' | 'stopping' | 'stopped' | 'restarting' | 'deleting' | 'error'

/** Sizes as sold; rates 0 = unlimited. */
export interface GuestLimits {
  vcpuMilli: number
  ramMb: number
  diskGb: number
  networkDownMbps: number
  networkUpMbps: number
  ioReadMbps: number
  ioWriteMbps: number
}

/** What was ordered; stored as JSON. */
export interface GuestSpec {
  virtualization: DriverKind
  templateId: string
  limits: GuestLimits
}

/** One port or a range of them; both ranges are equally long, a single port ends where it begins. */
export interface PortMapping {
  protocol: 'tcp' | 'udp'
  /** Host address it answers on; empty: every local one. */
  hostIp: string
  hostPort: number
  hostPortEnd: number
  containerPort: number
  containerPortEnd: number
  description: string
}

export type TrafficAction = 'stop' | 'throttle' | 'none'

/** Monthly quotas in GB of 10^9 bytes; 0 is unlimited. */
export interface TrafficLimit {
  mode: 'total' | 'split'
  /** In total mode: both directions together. */
  monthlyGb: number
  /** In split mode; `in` is what the guest receives. */
  inGb: number
  outGb: number
  action: TrafficAction
  /** Both directions while throttled; 0: the host's configured rate. */
  throttleMbps: number
  /** Day of the month on which counting starts anew, 1 to 28; 0: the host's. */
  resetDay: number
}

/** What is true of the guest's contract; what follows from it is in policy.ts. */
export interface GuestPolicy {
  /** `expiresAtMs` has passed. */
  expired: boolean
  /** The quota of this period is used up. */
  overQuota: boolean
}

/** A state of the guest's volume that was kept. */
export interface SnapshotRecord {
  /** That of the operation that takes it; also of the volume's snapshot. */
  id: string
  createdAtMs: number
  createdBy: string
  /** By a schedule. */
  scheduled: boolean
  /** What counted for the guest's bound when it was taken; 0: not known. */
  sizeBytes: number
  description: string
  /** Only one that is `ready` is shown; the others are there or not, and an operation is about to say. */
  state: 'taking' | 'ready' | 'deleting'
}

/** A state of the guest's volume that is kept at a backup target. */
export interface BackupRecord {
  /** That of the operation that makes it; by which the target knows it. */
  id: string
  targetId: string
  createdAtMs: number
  createdBy: string
  /** By a schedule. */
  scheduled: boolean
  /** Of all files in it. */
  sizeBytes: number
  /** What the target had to take for it. */
  storedBytes: number
  /** 0: not yet. */
  verifiedAtMs: number
  description: string
  /** As of a snapshot. */
  state: 'taking' | 'ready' | 'deleting'
}

export const openFirewall: Firewall = { enabled: false, defaultAction: 'ACCEPT', rules: [] }

export const unlimitedTraffic: Readonly<TrafficLimit> = {
  mode: 'total',
  monthlyGb: 0,
  inGb: 0,
  outGb: 0,
  action: 'stop',
  throttleMbps: 0,
  resetDay: 0,
}

/**
 * What of a guest the journal keeps as one document beside its spec: no SQL asks for it. A new field is added here
 * and to `documentDefaults`.
 */
export interface GuestDocument {
  /** The login is a password rather than a key. */
  hasPassword: boolean
  firewall: Firewall
  traffic: TrafficLimit
  /** 0: never. */
  expiresAtMs: number
  policy: GuestPolicy
  /** Snapshots that it may have; 0: none. */
  snapshotLimit: number
  /** Oldest first. */
  snapshots: readonly SnapshotRecord[]
  /** Oldest first. */
  backups: readonly BackupRecord[]
  /** By how much the volume's bound is raised while a backup is fetched beside what is there. */
  fetchedBytes: number
}

/** Of a guest that a version without the field made. */
export const documentDefaults: Readonly<GuestDocument> = {
  hasPassword: false,
  firewall: openFirewall,
  traffic: unlimitedTraffic,
  expiresAtMs: 0,
  policy: { expired: false, overQuota: false },
  snapshotLimit: defaultSnapshotLimit,
  snapshots: [],
  backups: [],
  fetchedBytes: 0,
}

/** A guest as the journal knows it. */
export interface GuestRecord extends GuestDocument {
  uuid: string
  /** Unique in the fleet, given by the gateway. */
  id: number
  name: string
  spec: GuestSpec
  status: GuestStatus
  statusReason: string
  /** What its owner wants: decides what happens after a crash or a reboot. */
  wanted: 'running' | 'stopped'
  /** Which of the host's ranges of user ids is its own. */
  userIdSlot: number
  ipv4: string
  mac: string
  /** Sealed `Login`; null when there is none. */
  login: string | null
  portMappings: PortMapping[]
  /** One-to-one; the guest's own traffic leaves with the first. */
  publicIpv4s: string[]
  /** In canonical form. */
  ipv6Addresses: string[]
  createdAtMs: number
  revision: number
}

const mib = 1024 * 1024
const gib = 1024 * mib
const userIdRange = 65_536

export interface MachineDefaults {
  readonly settings: MachineSettings
  readonly bridge: string
  readonly gateway: string
  readonly prefixLength: number
  readonly resolvers: readonly string[]
  /** Host-side interface of a guest id. */
  readonly deviceOf: (id: number) => string
  readonly volumeOf: (uuid: string) => string
}

/** The guest in the driver's terms. */
export function machineOf(record: GuestRecord, defaults: MachineDefaults): Machine {
  const { userIdBase, pidsMax, swapRatio } = defaults.settings
  const { limits } = record.spec
  const memoryBytes = limits.ramMb * mib
  return {
    uuid: record.uuid,
    id: record.id,
    hostname: hostnameOf(record.name),
    volume: defaults.volumeOf(record.uuid),
    limits: {
      vcpuMilli: limits.vcpuMilli,
      memoryBytes,
      swapBytes: Math.floor((memoryBytes * swapRatio) / mib) * mib,
      diskBytes: limits.diskGb * gib,
      ioReadBytesPerSec: limits.ioReadMbps * 1_000_000,
      ioWriteBytesPerSec: limits.ioWriteMbps * 1_000_000,
    },
    isolation: { userIdBase: userIdBase + record.userIdSlot * userIdRange, pidsMax },
    nic: {
      device: defaults.deviceOf(record.id),
      bridge: defaults.bridge,
      mac: record.mac,
      ipv4: record.ipv4,
      prefixLength: defaults.prefixLength,
      gateway: defaults.gateway,
      ipv6Addresses: record.ipv6Addresses,
      gateway6,
    },
    resolvers: defaults.resolvers,
  }
}
