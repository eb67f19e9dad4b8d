import { Type, type Static } from 'typebox'
import { guestDevices } from '../../../shared/guest-devices.js'
import type { TimeFormat } from '../../../shared/time.js'
import { GuestLimits, TrafficLimit, type GuestBoot, type PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { GuestView } from '../../fleet/contract.js'
import { guestStatuses, statusOf } from '../../fleet/guest-status.js'
import { TimeSchema, timeSchema, oneOf } from '../../http/schema.js'
import { placementRow, placementRowFields } from './placement-row.js'
import { labelRowFields, labelsRow } from './label-row.js'
import { maintenanceRow, MaintenanceSchema } from './maintenance-row.js'
import { planSshPlace, sshCommand } from './ssh-line.js'
import { suspensionRow, suspensionRowFields } from './suspension-row.js'

/** Shown instead of a stored password. */
const maskedPassword = '********'

export const GuestStatusSchema = oneOf(
  guestStatuses,
  'Status of the container. `unknown`: the host of the container is offline. `deleted`: the container will be removed at `deleted_until`; only lists with the filter `status=deleted` contain it, and bound callers do not see it.',
)
export const textFilter = Type.String({ maxLength: 64 })
export const VirtualizationSchema = oneOf(
  ['lxc', 'kvm'],
  'Virtualization. `lxc`: LXC container. `kvm`: virtual machine.',
)
export const PortMappingSchema = Type.Object(
  {
    container_port: Type.Integer(),
    host_port: Type.Integer(),
    protocol: oneOf(['tcp', 'udp']),
    description: Type.String(),
    host_ip: Type.Optional(
      Type.String({
        description:
          'Address of the host at which the mapping accepts connections. If absent: every address of the host.',
      }),
    ),
    container_port_end: Type.Optional(
      Type.Integer({ description: 'Last container port of a range. Absent if the mapping has a single port.' }),
    ),
    host_port_end: Type.Optional(
      Type.Integer({ description: 'Last host port of a range. Absent if the mapping has a single port.' }),
    ),
  },
  { title: 'PortMapping' },
)
export type PortMappingRow = Static<typeof PortMappingSchema>

export const TrafficModeSchema = oneOf(['total', 'split'])
export const TrafficActionSchema = oneOf(['stop', 'throttle', 'none'])

const pendingChanges = ['limits', 'password', 'addresses', 'devices'] as const
export const bootModes = ['disk', 'cdrom', 'rescue'] as const

const mbps = Type.Integer({ description: 'Maximum rate in Mbit/s. 0: unlimited.' })
const ioMbps = Type.Integer({ description: 'Maximum rate in MB/s. 0: unlimited.' })
const iops = Type.Integer({ description: 'Maximum number of I/O operations per second. 0: unlimited.' })
const gbPerMonth = Type.Number({ description: 'Traffic quota in GB (10^9 bytes) per month. 0: unlimited.' })

export const GuestRowSchema = Type.Object(
  {
    id: Type.Integer(),
    uuid: Type.String(),
    name: Type.String(),
    virtualization: VirtualizationSchema,
    template: Type.String(),
    vcpu: Type.Number({ description: 'Number of virtual CPUs.' }),
    ram_mb: Type.Integer({ description: 'Memory in MiB.' }),
    disk_gb: Type.Integer({ description: 'Disk size in GiB.' }),
    network_down_mbps: mbps,
    network_up_mbps: mbps,
    io_read_mbps: ioMbps,
    io_write_mbps: ioMbps,
    io_read_iops: iops,
    io_write_iops: iops,
    status: GuestStatusSchema,
    status_reason: Type.String({
      description: 'Reason for the status, if the status is `error` or follows from a failed task. Otherwise empty.',
    }),
    ip: Type.String({ description: 'Private IPv4 address of the container on its host.' }),
    ipv6: Type.String({ description: 'First address in `ipv6_addresses`. Empty: the container has no IPv6 address.' }),
    public_ipv4s: Type.Array(Type.String()),
    ipv6_addresses: Type.Array(Type.String()),
    ssh_port: Type.Integer({
      description: 'Host port that is mapped to the SSH port of the container. 0: no host port is mapped to it.',
    }),
    ssh_host: Type.String({
      description:
        'Name or address to which SSH clients connect: an address of the container, or the public address of its host. Empty: the address is not known, see `public_address` of the host.',
    }),
    ssh_command: Type.String({
      description: 'Command that opens an SSH login to the container. Empty: the port or the address is not known.',
    }),
    ssh_password: Type.String({
      description: `\`${maskedPassword}\` if the container has a password, else empty.`,
    }),
    port_mappings: Type.Array(PortMappingSchema),
    policy_blocked: Type.Boolean({
      description: '`true`: the container is blocked because of a suspension, its expiry, its traffic quota or abuse.',
    }),
    policy_reason: Type.String({
      description: 'Reasons why the container is blocked, separated by commas. Empty: it is not blocked.',
    }),
    ...suspensionRowFields,
    ...labelRowFields,
    ...placementRowFields,
    deleted_until: Type.Optional({
      ...TimeSchema,
      description: 'Time when the deleted container will be removed. Absent: the container is not deleted.',
    }),
    created_at: TimeSchema,
    expires_at: timeSchema('the container expires', 'it does not expire'),
    host_id: Type.String(),
    maintenance: MaintenanceSchema,
    traffic_mode: TrafficModeSchema,
    monthly_traffic_gb: gbPerMonth,
    traffic_in_gb: gbPerMonth,
    traffic_out_gb: gbPerMonth,
    traffic_action: TrafficActionSchema,
    traffic_throttle_mbps: Type.Integer({
      description: 'Maximum rate in Mbit/s while the container is throttled. 0: the rate configured for the host.',
    }),
    traffic_reset_day: Type.Integer({
      description: 'Day of the month on which a traffic period begins. 0: the day configured for the host.',
    }),
    snapshot_limit: Type.Integer({
      description: 'Maximum number of snapshots of the container. 0: no snapshots can be taken.',
    }),
    snapshot_space_used_bytes: Type.Integer({
      description: 'Upper bound, in bytes, of the disk space that all snapshots of the container together occupy.',
    }),
    snapshot_space_limit_bytes: Type.Integer({
      description: 'Maximum disk space that all snapshots of the container together can retain.',
    }),
    throttled: Type.Boolean({ description: '`true`: the traffic quota is used up and the rate is reduced.' }),
    at_next_start: Type.Array(oneOf(pendingChanges), {
      description: 'Settings that were changed while the container was running and take effect at its next start.',
    }),
    owners: Type.Optional(
      Type.Array(Type.Object({ id: Type.String(), username: Type.String() }, { title: 'Owner' }), {
        description:
          'Sub-users with access to the container. Only returned by `GET /containers` and `GET /containers/{id}`, and only to callers with `subuser:read` that are not bound to containers.',
      }),
    ),
    devices: Type.Array(oneOf(guestDevices), {
      description: 'Devices of the host that the container can use.',
    }),
    boot: Type.Object(
      {
        mode: oneOf(bootModes),
        image: Type.String({
          description: 'Id of the image that is booted instead of the disk. Empty: the container boots from its disk.',
        }),
      },
      { title: 'ContainerBoot' },
    ),
  },
  { title: 'Container' },
)
export type GuestRow = Static<typeof GuestRowSchema>

/** A row of `/containers/list`. */
export const CompactRowSchema = Type.Pick(GuestRowSchema, ['id', 'uuid', 'name', 'status', 'ip'], {
  title: 'ContainerSummary',
})
export type CompactRow = Static<typeof CompactRowSchema>

/** True if customers see a different row than the provider, without the note or the reason of a suspension. */
export function differsForCustomer({ guest }: GuestView): boolean {
  return guest.suspension !== undefined || guest.placement !== undefined || (guest.labels?.note ?? '') !== ''
}

/** Converts a guest to a row. @param shown `customer` omits fields that only the provider may see */
export function guestRow(view: GuestView, time: TimeFormat, shown: 'all' | 'customer' = 'all'): GuestRow {
  const { guest } = view
  const ssh = planSshPlace(guest, view.hostAddress)
  return {
    id: guest.id,
    uuid: guest.uuid,
    name: guest.name,
    virtualization: virtualizationName(guest.virtualization),
    template: guest.templateId,
    ...limitsRow(view),
    status: statusOf(view),
    status_reason: guest.statusReason,
    ip: guest.ipv4,
    ipv6: guest.ipv6,
    public_ipv4s: guest.publicIpv4s,
    ipv6_addresses: guest.ipv6Addresses,
    ssh_port: guest.sshPort,
    ssh_host: ssh.host,
    ssh_command: sshCommand(ssh),
    ssh_password: guest.hasPassword ? maskedPassword : '',
    port_mappings: guest.portMappings.map(portMappingRow),
    policy_blocked: guest.policyBlocked,
    policy_reason: guest.policyReason,
    ...suspensionRow(guest, time, shown),
    ...labelsRow(guest, shown),
    ...placementRow(guest, shown),
    ...(guest.deletion && { deleted_until: time.format(guest.deletion.untilMs) }),
    created_at: time.format(guest.createdAtMs),
    expires_at: time.format(guest.expiresAtMs),
    host_id: view.hostId,
    maintenance: maintenanceRow(view.maintenance, time),
    ...trafficLimitRow(guest.traffic),
    snapshot_limit: guest.snapshotLimit,
    snapshot_space_used_bytes: guest.snapshotSpaceUsedBytes,
    snapshot_space_limit_bytes: guest.snapshotSpaceLimitBytes,
    throttled: guest.throttled,
    at_next_start: pendingChanges.filter((change) => guest.atNextStart.includes(change)),
    devices: guestDevices.filter((device) => guest.devices.includes(device)),
    boot: bootRow(guest.boot),
  }
}

function bootRow({ mode, image }: GuestBoot = { mode: '', image: '' }): GuestRow['boot'] {
  return { mode: bootModes.find((known) => known === mode) ?? 'disk', image }
}

export function compactRow(view: GuestView): CompactRow {
  const { id, uuid, name, ipv4 } = view.guest
  return { id, uuid, name, status: statusOf(view), ip: ipv4 }
}

export function virtualizationName(virtualization: string): 'lxc' | 'kvm' {
  return virtualization === 'kvm' ? 'kvm' : 'lxc'
}

function limitsRow({ guest }: GuestView) {
  const limits = guest.limits ?? noLimits
  return {
    vcpu: limits.vcpuMilli / 1000,
    ram_mb: limits.ramMb,
    disk_gb: limits.diskGb,
    network_down_mbps: limits.networkDownMbps,
    network_up_mbps: limits.networkUpMbps,
    io_read_mbps: limits.ioReadMbps,
    io_write_mbps: limits.ioWriteMbps,
    io_read_iops: limits.ioReadIops ?? 0,
    io_write_iops: limits.ioWriteIops ?? 0,
  }
}

const noLimits = GuestLimits.create()

/** Converts a mapping to a row, without the fields that most mappings do not use. */
export function portMappingRow(mapping: PortMapping): PortMappingRow {
  const { containerPort, containerPortEnd, hostPort, hostPortEnd } = mapping
  return {
    container_port: containerPort,
    host_port: hostPort,
    protocol: mapping.protocol === 'udp' ? 'udp' : 'tcp',
    description: mapping.description,
    ...(mapping.hostIp === '' ? {} : { host_ip: mapping.hostIp }),
    ...(hostPortEnd > hostPort ? { container_port_end: containerPortEnd, host_port_end: hostPortEnd } : {}),
  }
}

const noTrafficLimit = TrafficLimit.create()

function trafficLimitRow(limit = noTrafficLimit) {
  return {
    traffic_mode: trafficModeName(limit.mode),
    monthly_traffic_gb: limit.monthlyGb,
    traffic_in_gb: limit.inGb,
    traffic_out_gb: limit.outGb,
    traffic_action: trafficActionName(limit.action),
    traffic_throttle_mbps: limit.throttleMbps,
    traffic_reset_day: limit.resetDay,
  }
}

export function trafficModeName(mode: string): 'total' | 'split' {
  return mode === 'split' ? 'split' : 'total'
}

export function trafficActionName(action: string): 'stop' | 'throttle' | 'none' {
  if (action === 'throttle') return 'throttle'
  return action === 'none' ? 'none' : 'stop'
}
