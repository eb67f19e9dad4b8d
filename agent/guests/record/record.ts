import type { SmtpChoice } from '../../../shared/abuse.js'
import type { GuestDevice } from '../../../shared/guest-devices.js'
import { defaultSnapshotLimit } from '../../../shared/guest-rules.js'
import type { DriverKind } from '../../drivers/drivers.js'
import type { Firewall } from '../../../shared/firewall-rules.js'
import type { Ownership } from '../ownership/plan-ownership.js'
import { noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import { noLabels, type GuestLabels } from '../../../shared/label-rules.js'
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

/** Configured limits of a guest. A rate of 0 means unlimited. */
export interface GuestLimits {
  vcpuMilli: number
  ramMb: number
  diskGb: number
  networkDownMbps: number
  networkUpMbps: number
  ioReadMbps: number
  ioWriteMbps: number
  /** Maximum number of read requests per second; undefined means unlimited. */
  ioReadIops?: number | undefined
  ioWriteIops?: number | undefined
}

/** The configuration of a guest, as the request contained it. It is stored as JSON. */
export interface GuestSpec {
  virtualization: DriverKind
  templateId: string
  limits: GuestLimits
}

/** Maps a port, or a range that is equally long on host and guest. A single port is a range of one. */
export interface PortMapping {
  protocol: 'tcp' | 'udp'
  /** Host address of the mapping; empty means every local address. */
  hostIp: string
  hostPort: number
  hostPortEnd: number
  containerPort: number
  containerPortEnd: number
  description: string
}

export type TrafficAction = 'stop' | 'throttle' | 'none'

/** Monthly traffic quota. The limits are in GB of 10^9 bytes; 0 means unlimited. */
export interface TrafficLimit {
  mode: 'total' | 'split'
  /** Limit for both directions together, in mode `total`. */
  monthlyGb: number
  /** Limits for each direction, in mode `split`. `in` is the traffic that the guest receives. */
  inGb: number
  outGb: number
  action: TrafficAction
  /** Rate in both directions while the guest is throttled; 0 means the host's configured rate. */
  throttleMbps: number
  /** Day of the month, 1 to 31, on which counting restarts; 0 means the host's configured day. */
  resetDay: number
}

/** Facts that decide whether the guest is allowed to run. policy.ts derives the consequences. */
export interface GuestPolicy {
  /** True if `expiresAtMs` has passed. */
  expired: boolean
  /** True if the quota of the current period is used up. */
  overQuota: boolean
  /** Kind of abuse for which the guest was stopped. Undefined: it was not stopped for abuse. */
  abuse?: string
  /** Expiry time at which the running guest was stopped. The guest is started again if the clock was wrong. */
  stoppedForExpiryMs?: number
  /** Expiry time that the guest exceeded. Undefined: it has not expired, or an older version recorded the expiry. */
  expiredForMs?: number
}

/** An administrator's decision that nobody is allowed to use the guest (docs/design/suspension.md). */
export interface GuestSuspension {
  mode: SuspensionMode
  /** Reason that the provider sees. */
  reason: string
  /** Message that the customer sees; may be empty. */
  message: string
  sinceMs: number
  /** End of the suspension; 0 means that it lasts until it is lifted. */
  untilMs: number
  /** True if the suspension stopped the guest. The guest runs again when the suspension ends. */
  resumes: boolean
}

/** Deletion that can be undone until the agent removes the guest. */
export interface GuestDeletion {
  sinceMs: number
  /** Time when the guest is removed. */
  untilMs: number
  /** True if the guest ran before its deletion. It runs again if the deletion is undone. */
  resumes: boolean
}

/** Warm standby: a copy of the guest's disk on another host, which gets increments (docs/design/moving-guests.md). */
export interface GuestStandby {
  standbyId: string
  hostId: string
  intervalMinutes: number
  /** Limit of the transfer in Mbit/s; 0: unlimited. */
  bandwidthMbps: number
  /** Time in ms of the disk state on the other host; 0: it has no complete copy. */
  takenAtMs: number
  /** Bytes that counted towards the disk limit when the standby's snapshot was taken; 0: not known. */
  takenBytes: number
  sentBytes: number
  /** Time of the last attempt; 0: never. */
  triedAtMs: number
  /** Failed attempts since the last complete increment. */
  failures: number
  /** Message of the last attempt's error; empty if it succeeded. */
  error: string
}

/** Settings of the abuse watch for the guest (see agent/abuse). */
export interface GuestSecurity {
  /** True if the guest is never stopped for abuse. */
  exempt: boolean
  smtp: SmtpChoice
}

export const usualSecurity: Readonly<GuestSecurity> = { exempt: false, smtp: 'default' }

/** Boot source of a guest: its disk, a CD followed by its disk, or a rescue system next to its disk. */
export interface BootChoice {
  mode: 'disk' | 'cdrom' | 'rescue'
  /** Template id of the CD or the rescue system; empty for the guest's disk. */
  image: string
}

export interface GuestBoot extends BootChoice {
  /** Boot source before an unfinished change. It is restored if the change fails. */
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
 * The fields of a guest that are stored as one JSON document, because no SQL query uses them. The spec is stored
 * separately. A new field must also be added to `documentDefaults`.
 */
export interface GuestDocument {
  /** True if the login is a password rather than a key. */
  hasPassword: boolean
  firewall: Firewall
  traffic: TrafficLimit
  /** Expiry time in ms since 1970; 0 means never. */
  expiresAtMs: number
  policy: GuestPolicy
  /** Suspension of the guest; null if it is not suspended. */
  suspension: Readonly<GuestSuspension> | null
  security: Readonly<GuestSecurity>
  labels: Readonly<GuestLabels>
  /** Rules by which the gateway chooses the guest's host. The agent only stores them. */
  placement: Readonly<PlacementRules>
  /** Null if the guest has no warm standby. */
  standby: Readonly<GuestStandby> | null
  /** Null if the guest is not marked as deleted. */
  deletion: Readonly<GuestDeletion> | null
  devices: readonly GuestDevice[]
  os: 'linux' | 'windows'
  boot: Readonly<GuestBoot>
  /** Maximum number of snapshots; 0: the guest cannot have snapshots. */
  snapshotLimit: number
  /** Snapshots of the guest, oldest first. */
  snapshots: readonly SnapshotRecord[]
  snapshotSchedule: Readonly<SnapshotSchedule>
  snapshotSpace: Readonly<SnapshotSpace>
  backups: readonly BackupRecord[]
  backupSchedule: Readonly<BackupSchedule>
  /** Bytes by which the volume's limit is raised while a backup is fetched. */
  fetchedBytes: number
  /**
   * Bytes by which the volume's limit is raised after a restore. The restored volume has its own copies of data that
   * the backed-up volume shared with an image or between files.
   */
  extraBytes: number
  /** Value that `extraBytes` gets when the volume of an unfinished restore becomes the guest's disk. */
  nextExtraBytes: number
  /** Changes that the running guest gets at its next start. Empty for a stopped guest. */
  atNextStart: readonly PendingChange[]
}

export type PendingChange = 'limits' | 'password' | 'addresses' | 'devices'

/** Values of fields that an older version did not write to the stored document of a guest. */
export const documentDefaults: Readonly<GuestDocument> = {
  hasPassword: false,
  firewall: openFirewall,
  traffic: unlimitedTraffic,
  expiresAtMs: 0,
  policy: { expired: false, overQuota: false },
  suspension: null,
  security: usualSecurity,
  labels: noLabels,
  placement: noPlacement,
  standby: null,
  deletion: null,
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
  /** Number of the guest, unique in the fleet. The gateway assigns it. */
  id: number
  name: string
  spec: GuestSpec
  status: GuestStatus
  statusReason: string
  /** State that the owner wants. It decides what happens after a crash or a reboot. */
  wanted: 'running' | 'stopped'
  /** Index of the guest's range of host user ids. */
  userIdSlot: number
  ipv4: string
  mac: string
  /** Encrypted `Login`; null if the guest has no login. */
  login: string | null
  portMappings: PortMapping[]
  /** Public addresses, each mapped one-to-one to the guest. The guest's own connections leave from the first one. */
  publicIpv4s: string[]
  /** IPv6 addresses in canonical form (RFC 5952). */
  ipv6Addresses: string[]
  createdAtMs: number
  ownership: Ownership
  revision: number
}
