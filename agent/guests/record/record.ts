import type { SmtpChoice } from '../../../shared/abuse.js'
import type { GuestDevice } from '../../../shared/guest-devices.js'
import { defaultSnapshotLimit } from '../../../shared/guest-rules.js'
import type { DriverKind } from '../../drivers/drivers.js'
import type { Firewall } from '../../../shared/firewall-rules.js'
import type { SuspensionMode } from '../../../shared/suspension-rules.js'
import {
  noBackupSchedule,
  noSchedule,
  unmeasuredSpace,
  type BackupRecord,
  type BackupSchedule,
  type SnapshotRecord,
  type SnapshotSchedule,
  type SnapshotSpace,
} from './snapshots-and-backups.js'

export type GuestStatus =
  'creating' | 'starting' | 'running' | 'stopping' | 'stopped' | 'restarting' | 'deleting' | 'error'

/** Configured sizes; rate 0: unlimited. */
export interface GuestLimits {
  vcpuMilli: number
  ramMb: number
  diskGb: number
  networkDownMbps: number
  networkUpMbps: number
  ioReadMbps: number
  ioWriteMbps: number
  /** Read requests per second; absent: unlimited. */
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
