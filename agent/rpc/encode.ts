import {
  GuestStatus as WireStatus,
  TrafficAction,
  TrafficMode,
  Virtualization,
  type Guest,
  type GetGuestUsageResponse,
  type PortMapping as WireMapping,
  type TrafficLimit as WireTrafficLimit,
} from '../../proto/gen/berth/agent/v1/guest.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import {
  OperationStatus as WireOperationStatus,
  type Operation,
} from '../../proto/gen/berth/agent/v1/operation.js'
import { isThrottled, policyReasonOf } from '../guests/policy.js'
import type { GuestRecord, GuestStatus, PortMapping, TrafficLimit } from '../guests/record.js'
import type { TemplateRecord } from '../images/store.js'
import type { GuestUsage } from '../metrics/guest-sampler.js'
import type { OperationRecord, OperationStatus } from '../operations/types.js'

const guestStatus: Readonly<Record<GuestStatus, WireStatus>> = {
  creating: WireStatus.GUEST_STATUS_CREATING,
  starting: WireStatus.GUEST_STATUS_STARTING,
  running: WireStatus.GUEST_STATUS_RUNNING,
  stopping: WireStatus.GUEST_STATUS_STOPPING,
  stopped: WireStatus.GUEST_STATUS_STOPPED,
  restarting: WireStatus.GUEST_STATUS_RESTARTING,
  deleting: WireStatus.GUEST_STATUS_DELETING,
  error: WireStatus.GUEST_STATUS_ERROR,
}

const operationStatus: Readonly<Record<OperationStatus, WireOperationStatus>> = {
  pending: WireOperationStatus.OPERATION_STATUS_PENDING,
  running: WireOperationStatus.OPERATION_STATUS_RUNNING,
  done: WireOperationStatus.OPERATION_STATUS_DONE,
  failed: WireOperationStatus.OPERATION_STATUS_FAILED,
  canceled: WireOperationStatus.OPERATION_STATUS_CANCELED,
}

export const virtualizationOf = {
  lxc: Virtualization.VIRTUALIZATION_LXC,
  kvm: Virtualization.VIRTUALIZATION_KVM,
} as const

const trafficMode = {
  total: TrafficMode.TRAFFIC_MODE_TOTAL,
  split: TrafficMode.TRAFFIC_MODE_SPLIT,
} as const

const trafficAction = {
  stop: TrafficAction.TRAFFIC_ACTION_STOP,
  throttle: TrafficAction.TRAFFIC_ACTION_THROTTLE,
  none: TrafficAction.TRAFFIC_ACTION_NONE,
} as const

const sshPort = 22

export function encodeGuest(record: GuestRecord): Guest {
  const { spec, portMappings } = record
  const policyReason = policyReasonOf(record)
  return {
    ...shownOf(record), // what has the same name and shape on the wire
    virtualization: virtualizationOf[spec.virtualization],
    templateId: spec.templateId,
    limits: spec.limits,
    status: guestStatus[record.status],
    ipv6: record.ipv6Addresses[0] ?? '',
    portMappings: portMappings.map(encodeMapping),
    sshPort: portMappings.find((m) => m.protocol === 'tcp' && m.containerPort === sshPort)?.hostPort ?? 0,
    policyBlocked: policyReason !== '',
    policyReason,
    traffic: encodeTrafficLimit(record.traffic),
    throttled: isThrottled(record),
    snapshots: record.snapshots.filter(({ state }) => state === 'ready'),
    backups: record.backups.filter(({ state }) => state === 'ready'),
  }
}

/** Without what stays on the host: secrets first. */
function shownOf({ login: _login, firewall: _firewall, fetchedBytes: _fetched, ...shown }: GuestRecord) {
  return shown
}

/** On the wire the end of a single port is 0. */
export function encodeMapping(mapping: PortMapping): WireMapping {
  const single = mapping.hostPort === mapping.hostPortEnd
  return single ? { ...mapping, hostPortEnd: 0, containerPortEnd: 0 } : mapping
}

export function encodeTrafficLimit(limit: TrafficLimit): WireTrafficLimit {
  return { ...limit, mode: trafficMode[limit.mode], action: trafficAction[limit.action] }
}

export function encodeOperation(record: OperationRecord): Operation {
  return { ...record, status: operationStatus[record.status] }
}

export function encodeTemplate(record: TemplateRecord): Template {
  return { ...record, virtualization: virtualizationOf[record.virtualization] }
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
