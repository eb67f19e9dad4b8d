import type {
  BackupSchedule as WireBackupSchedule,
  GetGuestUsageResponse,
  Guest,
  GuestPlacement,
  GuestUsage as WireGuestUsage,
  PortMapping as WireMapping,
} from '../../proto/gen/berth/agent/v1/guest.js'
import { isPlaced, type PlacementRules } from '../../shared/placement-rules.js'
import { firstOwnership } from '../guests/ownership/plan-ownership.js'
import { planRetained, planSpaceLimit } from '../guests/snapshots/plan-snapshot-space.js'
import { blocksOf, policyReasonOf, isThrottled } from '../guests/policy/policy.js'
import type { GuestRecord, PortMapping } from '../guests/record/record.js'
import type { BackupSchedule } from '../guests/record/snapshots-and-backups.js'
import type { TrafficUse } from '../guests/context.js'
import type { GuestSampler, GuestUsage } from '../metrics/guest-sampler.js'

/** Port of the usual login service of each operating system: SSH or RDP. */
const loginPorts = { linux: 22, windows: 3389 } as const

/** Returns undefined for guests without rules, so that they need less memory in the gateway. */
function encodePlacement(rules: PlacementRules): GuestPlacement | undefined {
  return isPlaced(rules) ? { ...rules, labels: [...rules.labels] } : undefined
}

export function encodeGuest(record: GuestRecord): Guest {
  const { spec, portMappings } = record
  const policyReason = policyReasonOf(record)
  return {
    ...shownOf(record), // fields that have the same name and form in the protocol
    virtualization: spec.virtualization,
    templateId: spec.templateId,
    limits: spec.limits,
    ipv6: record.ipv6Addresses[0] ?? '',
    portMappings: portMappings.map(encodeMapping),
    sshPort: portMappings.find((m) => m.protocol === 'tcp' && m.containerPort === loginPorts[record.os])?.hostPort ?? 0,
    policyBlocked: policyReason !== '',
    policyReason,
    blocks: blocksOf(record),
    suspension: record.suspension ?? undefined,
    throttled: isThrottled(record),
    snapshots: record.snapshots.filter(({ state }) => state === 'ready'),
    snapshotSpaceUsedBytes: planRetained(record),
    snapshotSpaceLimitBytes: planSpaceLimit(record),
    snapshotSchedule: record.snapshotSchedule.intervalHours === 0 ? undefined : record.snapshotSchedule,
    placement: encodePlacement(record.placement),
    labels: { ...record.labels, tags: [...record.labels.tags] },
    standby: record.standby ?? undefined,
    deletion: record.deletion ?? undefined,
    devices: [...record.devices],
    atNextStart: [...record.atNextStart],
    boot: { mode: record.boot.mode, image: record.boot.image },
    backups: record.backups.filter(({ state }) => state === 'ready'),
    backupSchedule: shownSchedule(record.backupSchedule),
    ownership: record.ownership === firstOwnership ? undefined : record.ownership,
  }
}

function shownSchedule({ target: _sealed, ...shown }: BackupSchedule): WireBackupSchedule | undefined {
  return shown.intervalHours === 0 ? undefined : shown
}

/** Returns the record without secrets and other fields that the gateway must not get. */
function shownOf(record: GuestRecord) {
  const { login: _login, firewall: _firewall, snapshotSpace: _space, ...others } = record
  const { fetchedBytes: _fetched, extraBytes: _extra, nextExtraBytes: _next, ...shown } = others
  return shown
}

/** Encodes a mapping. In the protocol, a mapping of a single port has 0 as last port. */
export function encodeMapping(mapping: PortMapping): WireMapping {
  const single = mapping.hostPort === mapping.hostPortEnd
  return single ? { ...mapping, hostPortEnd: 0, containerPortEnd: 0 } : mapping
}

/** Encodes a guest's last known usage. Values are absent if the guest does not run, or was never measured. */
export function encodeListedUsage(
  uuid: string,
  sampler: Pick<GuestSampler, 'sampled' | 'usage' | 'diskBytes'>,
  { rxBytes, txBytes }: Pick<TrafficUse, 'rxBytes' | 'txBytes'>,
): WireGuestUsage {
  const usage = sampler.sampled(uuid) && sampler.usage(uuid)
  return {
    uuid,
    cpuUsagePct: usage?.cpuPercent,
    memoryUsageBytes: usage?.memoryBytes,
    diskUsageBytes: sampler.diskBytes(uuid),
    trafficRxBytes: rxBytes,
    trafficTxBytes: txBytes,
  }
}

export function encodeUsage(usage: GuestUsage): GetGuestUsageResponse {
  return {
    cpuUsagePct: usage.cpuPercent,
    cpuUsageUsec: usage.cpuUsec,
    memoryUsageBytes: usage.memoryBytes,
    diskUsageBytes: usage.diskBytes,
    networkRxBytes: usage.rxBytes,
    networkTxBytes: usage.txBytes,
    load1: usage.load[0],
    load5: usage.load[1],
    load15: usage.load[2],
    sampledAtMs: usage.sampledAtMs,
  }
}
