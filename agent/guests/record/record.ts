import type { SmtpChoice } from '../../../shared/abuse.js'
import type { GuestDevice } from '../../../shared/guest-devices.js'
import { defaultSnapshotLimit, hostNamesOf } from '../../../shared/guest-rules.js'
import type { Machine, MachineBoot } from '../../drivers/contract.js'
import type { DriverKind, MachineSettings } from '../../drivers/drivers.js'
import { cdOf } from '../../images/disks/install-cd.js'
import { gateway6 } from '../../network/addresses/plan-host.js'
import type { Volumes } from '../../storage/volumes.js'
import type { Firewall } from '../../../shared/firewall-rules.js'
import type { SuspensionMode } from '../../../shared/suspension-rules.js'

export type GuestStatus =
  'creating' | 'starting' | 'running' | 'stopping' | 'stopped' | 'restarting' | 'deleting' | 'error'

/** Sizes as sold; rate 0 = unlimited. */
export interface GuestLimits {
  vcpuMilli: number
  ramMb: number
  diskGb: number
  networkDownMbps: number
  networkUpMbps: number
  ioReadMbps: number
  ioWriteMbps: number
  /** Requests a second; absent: unlimited. */
  ioReadIops?: number | undefined
  ioWriteIops?: number | undefined
}

/** What was ordered; stored as JSON. */
export interface GuestSpec {
  virtualization: DriverKind
  templateId: string
  limits: GuestLimits
}

/** A port or a range; host and guest range have the same length, and a single port ends where it begins. */
export interface PortMapping {
  protocol: 'tcp' | 'udp'
  /** Host address it answers on; empty: every local address. */
  hostIp: string
  hostPort: number
  hostPortEnd: number
  containerPort: number
  containerPortEnd: number
  description: string
}

export type TrafficAction = 'stop' | 'throttle' | 'none'

/** Monthly quotas in GB of 10^9 bytes; 0 = unlimited. */
export interface TrafficLimit {
  mode: 'total' | 'split'
  /** In total mode: limit for both directions together. */
  monthlyGb: number
  /** In split mode; `in` is what the guest receives. */
  inGb: number
  outGb: number
  action: TrafficAction
  /** Rate in both directions while throttled; 0: the host's configured rate. */
  throttleMbps: number
  /** Day of the month on which counting restarts, 1 to 28; 0: the host's. */
  resetDay: number
}

/** Whether the guest is expired or over quota; policy.ts says what follows. */
export interface GuestPolicy {
  /** `expiresAtMs` has passed. */
  expired: boolean
  /** The current period's quota is used up. */
  overQuota: boolean
  /** The kind of abuse it was stopped for; absent: none. */
  abuse?: string
  /**
   * The expiry for which the running guest was stopped. If a wrong clock caused the stop, the guest is started again.
   */
  stoppedForExpiryMs?: number
  /** The expiry that has passed; absent if the guest is not expired or an older agent stopped it. */
  expiredForMs?: number
}

/** An administrator's decision that the guest may not be used; docs/design/suspension.md. */
export interface GuestSuspension {
  mode: SuspensionMode
  /** For the provider. */
  reason: string
  /** For the customer; may be empty. */
  message: string
  sinceMs: number
  /** 0: until it is lifted. */
  untilMs: number
  /** True if the suspension stopped the guest while it ran, so that it runs again afterwards. */
  resumes: boolean
}

/** What the watch for abuse does with the guest; see agent/abuse. */
export interface GuestSecurity {
  /** It is not stopped for what it does to others. */
  exempt: boolean
  smtp: SmtpChoice
}

export const usualSecurity: Readonly<GuestSecurity> = { exempt: false, smtp: 'default' }

/** What a guest boots: its disk; a CD, and its disk after it; a system beside its disk. */
export interface BootChoice {
  mode: 'disk' | 'cdrom' | 'rescue'
  /** Id of the template; empty: its disk. */
  image: string
}

export interface GuestBoot extends BootChoice {
  /** What it was until an operation that is not ended; that comes back where it fails. */
  before?: BootChoice
}

export const usualBoot: Readonly<GuestBoot> = { mode: 'disk', image: '' }

/** A snapshot of the guest's volume. */
export interface SnapshotRecord {
  /** Same as the id of the operation that took it and the name of the volume's snapshot. */
  id: string
  createdAtMs: number
  createdBy: string
  /** Taken by a schedule. */
  scheduled: boolean
  /** Bytes that counted towards the guest's disk limit when it was taken; 0: unknown. */
  sizeBytes: number
  description: string
  /** Only `ready` snapshots are shown; of the others an operation is about to find out whether they exist. */
  state: 'taking' | 'ready' | 'deleting'
}

/** Space that the snapshots of a guest retain in the pool: docs/design/storage.md. */
export interface SnapshotSpace {
  /** Limit of the space that all snapshots together may retain; 0: the default, a multiple of the disk size. */
  limitBytes: number
  /** Upper bound of the space that all snapshots together retain. */
  retainedBytes: number
  /**
   * Bytes by which the limit of the disk is raised: `retainedBytes`, hidden snapshots, and space that is being freed.
   */
  allowanceBytes: number
  /** False: the guest is from a version that did not measure. */
  isMeasured: boolean
}

export const unmeasuredSpace: Readonly<SnapshotSpace> = {
  limitBytes: 0,
  retainedBytes: 0,
  allowanceBytes: 0,
  isMeasured: false,
}

/** When the agent takes snapshots by itself; agent/guests/schedule says what follows from it. */
export interface SnapshotSchedule {
  enabled: boolean
  /** 0: never set. */
  intervalHours: number
  /** `HH:MM` in the host's time zone, of the first run; empty: never set. */
  time: string
  /** Of its snapshots that are kept; 0: as many as the guest may have. */
  retention: number
  /** `YYYY-MM-DD` in the host's time zone: a run at `time` of this day, others are whole intervals away; empty: off. */
  firstDay: string
  /** Who set it. */
  createdBy: string
  /** 0: not yet. */
  lastRunMs: number
  /** 0: it is off. */
  nextRunMs: number
}

export const noSchedule: Readonly<SnapshotSchedule> = {
  enabled: false,
  intervalHours: 0,
  time: '',
  retention: 0,
  firstDay: '',
  createdBy: '',
  lastRunMs: 0,
  nextRunMs: 0,
}

/** When the agent makes backups by itself, and where they go. Its retention is of what the target keeps. */
export interface BackupSchedule extends SnapshotSchedule {
  targetId: string
  /** Of the target that is sealed here: by it the gateway knows whether it is that of now. */
  targetChangedAtMs: number
  /** Sealed; empty: never set. */
  target: string
}

export const noBackupSchedule: Readonly<BackupSchedule> = {
  ...noSchedule,
  targetId: '',
  targetChangedAtMs: 0,
  target: '',
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
  /** Bytes that counted for the guest's disk at that time; absent: not known. */
  usedBytes?: number
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
 * What the journal keeps of a guest in one document besides its spec, since no SQL asks for it. Add a new field here
 * and to `documentDefaults`.
 */
export interface GuestDocument {
  /** Whether the login is a password rather than a key. */
  hasPassword: boolean
  firewall: Firewall
  traffic: TrafficLimit
  /** 0: never. */
  expiresAtMs: number
  policy: GuestPolicy
  /** Null: the guest is not suspended. */
  suspension: Readonly<GuestSuspension> | null
  security: Readonly<GuestSecurity>
  /** Devices of the host that the guest may use. */
  devices: readonly GuestDevice[]
  /** Of its template. */
  os: 'linux' | 'windows'
  boot: Readonly<GuestBoot>
  /** How many snapshots it may have; 0: none. */
  snapshotLimit: number
  /** Oldest first. */
  snapshots: readonly SnapshotRecord[]
  snapshotSchedule: Readonly<SnapshotSchedule>
  snapshotSpace: Readonly<SnapshotSpace>
  /** Oldest first. */
  backups: readonly BackupRecord[]
  backupSchedule: Readonly<BackupSchedule>
  /** Bytes by which the volume's bound is raised while a backup is fetched. */
  fetchedBytes: number
  /**
   * Bytes by which the limit is raised for data that a restored volume no longer shares with an image or among its
   * files.
   */
  extraBytes: number
  /** The same for the volume that is about to replace the guest's. */
  nextExtraBytes: number
  /** What was changed while the guest ran and it gets at its next start; those of a stopped guest are none. */
  atNextStart: readonly PendingChange[]
}

export type PendingChange = 'limits' | 'password' | 'addresses' | 'devices'

/** Values for a guest made by a version without the field. */
export const documentDefaults: Readonly<GuestDocument> = {
  hasPassword: false,
  firewall: openFirewall,
  traffic: unlimitedTraffic,
  expiresAtMs: 0,
  policy: { expired: false, overQuota: false },
  suspension: null,
  security: usualSecurity,
  devices: [],
  os: 'linux',
  boot: usualBoot,
  snapshotLimit: defaultSnapshotLimit,
  snapshots: [],
  snapshotSchedule: noSchedule,
  snapshotSpace: unmeasuredSpace,
  backups: [],
  backupSchedule: noBackupSchedule,
  fetchedBytes: 0,
  extraBytes: 0,
  nextExtraBytes: 0,
  atNextStart: [],
}

/** A guest as journaled. */
export interface GuestRecord extends GuestDocument {
  uuid: string
  /** Unique in the fleet, assigned by the gateway. */
  id: number
  name: string
  spec: GuestSpec
  status: GuestStatus
  statusReason: string
  /** What the owner wants; decides what happens after a crash or a reboot. */
  wanted: 'running' | 'stopped'
  /** Index of the guest's range of host user ids. */
  userIdSlot: number
  ipv4: string
  mac: string
  /** Encrypted `Login`; null: none. */
  login: string | null
  portMappings: PortMapping[]
  /** Mapped one-to-one; the guest's own traffic leaves with the first. */
  publicIpv4s: string[]
  /** Canonical (RFC 5952). */
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
  /** @returns the name of the guest's host-side interface */
  readonly deviceOf: (id: number) => string
  readonly volumeOf: (uuid: string) => string
  readonly cpusOf: (record: GuestRecord) => readonly number[]
  readonly bootOf: (record: GuestRecord) => MachineBoot
}

/** Where on the host that is what a guest boots. */
export function bootOf(
  { uuid, boot: { mode, image } }: Pick<GuestRecord, 'uuid' | 'boot'>,
  volumes: Pick<Volumes, 'rescuePathOf' | 'imagePathOf'>,
): MachineBoot {
  if (mode === 'cdrom') return { mode, iso: cdOf(volumes.imagePathOf(image)) }
  return mode === 'rescue' ? { mode, volume: volumes.rescuePathOf(uuid) } : { mode }
}

/** Converts a guest's record to the driver's terms. */
export function machineOf(record: GuestRecord, defaults: MachineDefaults): Machine {
  const { userIdBase, pidsMax, swapRatio } = defaults.settings
  const { limits } = record.spec
  const memoryBytes = limits.ramMb * mib
  return {
    uuid: record.uuid,
    id: record.id,
    ...hostNamesOf(record.name),
    volume: defaults.volumeOf(record.uuid),
    boot: defaults.bootOf(record),
    limits: {
      vcpuMilli: limits.vcpuMilli,
      memoryBytes,
      swapBytes: Math.floor((memoryBytes * swapRatio) / mib) * mib,
      diskBytes: limits.diskGb * gib,
      ioReadBytesPerSec: limits.ioReadMbps * 1_000_000,
      ioWriteBytesPerSec: limits.ioWriteMbps * 1_000_000,
      ioReadsPerSec: limits.ioReadIops ?? 0,
      ioWritesPerSec: limits.ioWriteIops ?? 0,
      cpus: defaults.cpusOf(record),
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
    devices: record.devices,
  }
}
