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

/** Sizes as sold; rate 0: unlimited. */
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

/** The guest as ordered; stored as JSON. */
export interface GuestSpec {
  virtualization: DriverKind
  templateId: string
  limits: GuestLimits
}

/** A port or a range. The ranges of host and guest have the same length, and a single port ends where it begins. */
export interface PortMapping {
  protocol: 'tcp' | 'udp'
  /** Host address that the mapping answers on; empty: every local address. */
  hostIp: string
  hostPort: number
  hostPortEnd: number
  containerPort: number
  containerPortEnd: number
  description: string
}

export type TrafficAction = 'stop' | 'throttle' | 'none'

/** Monthly quotas in GB of 10^9 bytes; 0: unlimited. */
export interface TrafficLimit {
  mode: 'total' | 'split'
  /** In total mode: limit for both directions together. */
  monthlyGb: number
  /** In split mode; `in` is the traffic that the guest receives. */
  inGb: number
  outGb: number
  action: TrafficAction
  /** Rate in both directions while throttled; 0: the host's configured rate. */
  throttleMbps: number
  /** Day of the month on which counting restarts, 1 to 28; 0: the host's configured day. */
  resetDay: number
}

/** True if the guest is expired or over quota; policy.ts derives the consequences. */
export interface GuestPolicy {
  /** `expiresAtMs` has passed. */
  expired: boolean
  /** The current period's quota is used up. */
  overQuota: boolean
  /** The kind of abuse that the guest was stopped for; absent: not stopped for abuse. */
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
  /** Reason for the provider. */
  reason: string
  /** Message for the customer; may be empty. */
  message: string
  sinceMs: number
  /** 0: until it is lifted. */
  untilMs: number
  /** True if the suspension stopped the guest while it ran, so that it runs again afterwards. */
  resumes: boolean
}

/** Settings of the abuse watch for the guest; see agent/abuse. */
export interface GuestSecurity {
  /** True if the guest is never stopped for abuse. */
  exempt: boolean
  smtp: SmtpChoice
}

export const usualSecurity: Readonly<GuestSecurity> = { exempt: false, smtp: 'default' }

/** Boot source of a guest: its disk; a CD, followed by its disk; or a rescue system next to its disk. */
export interface BootChoice {
  mode: 'disk' | 'cdrom' | 'rescue'
  /** Id of the template; empty: the guest's disk. */
  image: string
}

export interface GuestBoot extends BootChoice {
  /** Boot source before an unfinished operation, which is restored if the operation fails. */
  before?: BootChoice
}

export const usualBoot: Readonly<GuestBoot> = { mode: 'disk', image: '' }

/** A snapshot of the guest's volume. */
export interface SnapshotRecord {
  /** Same as the id of the operation that took it and the name of the volume's snapshot. */
  id: string
  createdAtMs: number
  createdBy: string
  /** True if a schedule created it. */
  scheduled: boolean
  /** Bytes that counted towards the guest's disk limit when it was taken; 0: unknown. */
  sizeBytes: number
  description: string
  /** Only `ready` snapshots are shown. For the others, an operation is about to find out whether they exist. */
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
  /** False: the guest was created by a version that did not measure the space. */
  isMeasured: boolean
}

export const unmeasuredSpace: Readonly<SnapshotSpace> = {
  limitBytes: 0,
  retainedBytes: 0,
  allowanceBytes: 0,
  isMeasured: false,
}

/** Schedule of a guest's automatic snapshots; agent/guests/schedule implements it. */
export interface SnapshotSchedule {
  enabled: boolean
  /** 0: never set. */
  intervalHours: number
  /** `HH:MM` in the host's time zone, of the first run; empty: never set. */
  time: string
  /** Number of scheduled snapshots that are retained; 0: as many as the guest may have. */
  retention: number
  /**
   * `YYYY-MM-DD` in the host's time zone. One run is at `time` of this day, and the others are whole intervals away;
   * empty: off.
   */
  firstDay: string
  /** User who set the schedule. */
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

/** Schedule of a guest's automatic backups, and their target. The retention counts backups at the target. */
export interface BackupSchedule extends SnapshotSchedule {
  targetId: string
  /** Time of the last change of the sealed target, by which the gateway detects an outdated one. */
  targetChangedAtMs: number
  /** Encrypted target; empty: never set. */
  target: string
}

export const noBackupSchedule: Readonly<BackupSchedule> = {
  ...noSchedule,
  targetId: '',
  targetChangedAtMs: 0,
  target: '',
}

/** A state of the guest's volume that is stored at a backup target. */
export interface BackupRecord {
  /** Id of the operation that created it; the target uses the same id. */
  id: string
  targetId: string
  createdAtMs: number
  createdBy: string
  /** True if a schedule created it. */
  scheduled: boolean
  /** Total length of all files in it. */
  sizeBytes: number
  /** Bytes that counted for the guest's disk at that time; absent: not known. */
  usedBytes?: number
  /** Bytes that the target had to store for it. */
  storedBytes: number
  /** 0: not yet. */
  verifiedAtMs: number
  description: string
  /** Same states as for a snapshot. */
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
 * The part of a guest that the journal stores in one document in addition to its spec, because no SQL query uses it.
 * Add a new field here and to `documentDefaults`.
 */
export interface GuestDocument {
  /** True if the login is a password rather than a key. */
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
  /** Operating system of the guest's template. */
  os: 'linux' | 'windows'
  boot: Readonly<GuestBoot>
  /** Maximum number of snapshots; 0: none. */
  snapshotLimit: number
  /** Oldest first. */
  snapshots: readonly SnapshotRecord[]
  snapshotSchedule: Readonly<SnapshotSchedule>
  snapshotSpace: Readonly<SnapshotSpace>
  /** Oldest first. */
  backups: readonly BackupRecord[]
  backupSchedule: Readonly<BackupSchedule>
  /** Bytes by which the volume's limit is raised while a backup is fetched. */
  fetchedBytes: number
  /**
   * Bytes by which the limit is raised for data that a restored volume no longer shares with an image or among its
   * files.
   */
  extraBytes: number
  /** Same as `extraBytes`, for the volume that is about to replace the guest's. */
  nextExtraBytes: number
  /** Changes that the running guest gets at its next start; empty for a stopped guest. */
  atNextStart: readonly PendingChange[]
}

export type PendingChange = 'limits' | 'password' | 'addresses' | 'devices'

/** Values for a guest that was created by a version without the field. */
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

/** A guest as stored in the journal. */
export interface GuestRecord extends GuestDocument {
  uuid: string
  /** Unique in the fleet, assigned by the gateway. */
  id: number
  name: string
  spec: GuestSpec
  status: GuestStatus
  statusReason: string
  /** The owner's wish, which decides what happens after a crash or a reboot. */
  wanted: 'running' | 'stopped'
  /** Index of the guest's range of host user ids. */
  userIdSlot: number
  ipv4: string
  mac: string
  /** Encrypted `Login`; null: no login. */
  login: string | null
  portMappings: PortMapping[]
  /** Public addresses, mapped one-to-one. The guest's own traffic leaves from the first. */
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

/** Paths on the host of the guest's boot source. */
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
