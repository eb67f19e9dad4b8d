import {
  GuestStatus as WireStatus,
  Virtualization,
  type Guest,
  type GetGuestUsageResponse,
} from '../../proto/gen/berth/agent/v1/guest.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import {
  OperationStatus as WireOperationStatus,
  type Operation,
} from '../../proto/gen/berth/agent/v1/operation.js'
import type { GuestRecord, GuestStatus } from '../guests/record.js'
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

const sshPort = 22

export function encodeGuest(record: GuestRecord): Guest {
  const { portMappings } = record
  return {
    id: record.id,
    uuid: record.uuid,
    name: record.name,
    virtualization: virtualizationOf[record.spec.virtualization],
    templateId: record.spec.templateId,
    limits: record.spec.limits,
    status: guestStatus[record.status],
    statusReason: record.statusReason,
    ipv4: record.ipv4,
    ipv6: '',
    mac: record.mac,
    portMappings,
    sshPort: portMappings.find((m) => m.protocol === 'tcp' && m.containerPort === sshPort)?.hostPort ?? 0,
    hasPassword: record.hasPassword,
    createdAtMs: record.createdAtMs,
    expiresAtMs: 0,
    policyBlocked: false,
    policyReason: '',
    revision: record.revision,
  }
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
