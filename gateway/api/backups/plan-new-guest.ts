import type { BackupSettings } from '../../../proto/gen/berth/agent/v1/backup.js'
import type { GuestSpec, PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../../shared/errors.js'
import { parseGuestDevices } from '../../../shared/guest-devices.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { CreateBody } from '../guests/create/create-body.js'
import { virtualizationName } from '../guests/guest-row.js'

/** Fields of a creation that the request contains. Fields that it omits are taken from the recorded settings. */
export type NewGuestBody = Partial<CreateBody>

/** Groups of fields. If the request contains one field of a group, no recorded field of the group is used. */
const groups: readonly (readonly (keyof CreateBody)[])[] = [
  ['assign_nat', 'port_mapping_count', 'nat_port_mappings', 'extra_ports'],
  ['assign_ipv4', 'ipv4_count', 'public_ipv4s'],
  ['assign_ipv6', 'ipv6_count', 'ipv6_addresses'],
]

/**
 * Returns the complete body of a creation. Fields that the request omits are taken from the recorded settings.
 * Host ports and public addresses are chosen again, because the original guest can still use the recorded ones.
 * @throws {BerthError} `missing_field` if name or template are missing in the request and in the recorded settings
 */
export function planNewGuest(
  body: NewGuestBody,
  recorded: BackupSettings | undefined,
  { time, nowMs }: { readonly time: TimeFormat; readonly nowMs: number },
): CreateBody {
  const defaults = recorded?.spec === undefined ? {} : bodyOf(recorded.name, recorded.spec, { time, nowMs })
  const replaced = groups.filter((fields) => fields.some((field) => body[field] !== undefined)).flat()
  const left = Object.entries(defaults).filter(([field]) => !replaced.includes(field as keyof CreateBody))
  const sent = Object.entries(body).filter(([, value]) => value !== undefined)
  const { name, template_id, ...rest }: NewGuestBody = { ...Object.fromEntries(left), ...Object.fromEntries(sent) }
  if (name === undefined || name === '') throw missing('name')
  if (template_id === undefined) throw missing('template_id')
  return { ...rest, name, template_id }
}

function bodyOf(
  name: string,
  spec: GuestSpec,
  { time, nowMs }: { readonly time: TimeFormat; readonly nowMs: number },
): NewGuestBody {
  const { limits, traffic, placement } = spec
  return {
    name,
    virtualization: virtualizationName(spec.virtualization),
    ...(spec.templateId !== '' && { template_id: spec.templateId }),
    ...(limits && {
      vcpu: limits.vcpuMilli / 1000,
      ram_mb: limits.ramMb,
      disk_gb: limits.diskGb,
      network_down_mbps: limits.networkDownMbps,
      network_up_mbps: limits.networkUpMbps,
      io_read_mbps: limits.ioReadMbps,
      io_write_mbps: limits.ioWriteMbps,
      io_read_iops: limits.ioReadIops ?? 0,
      io_write_iops: limits.ioWriteIops ?? 0,
    }),
    ...(traffic && {
      traffic_mode: traffic.mode === 'split' ? 'split' : 'total',
      monthly_traffic_gb: traffic.monthlyGb,
      traffic_in_gb: traffic.inGb,
      traffic_out_gb: traffic.outGb,
      traffic_action: traffic.action === 'throttle' || traffic.action === 'none' ? traffic.action : 'stop',
      traffic_throttle_mbps: traffic.throttleMbps,
      traffic_reset_day: traffic.resetDay,
    }),
    ...mappingsOf(spec),
    ipv4_count: spec.ipv4Count,
    ipv6_count: spec.ipv6Count,
    snapshot_limit: spec.snapshotLimit,
    devices: parseGuestDevices(spec.devices),
    ...(placement && { placement }),
    tags: spec.tags,
    // An expiry in the past is omitted, because the restored guest would not be started.
    ...(spec.expiresAtMs > nowMs && { expires_at: time.format(spec.expiresAtMs) }),
  }
}

function mappingsOf({ assignNat, portMappings }: GuestSpec): NewGuestBody {
  if (!assignNat) return { assign_nat: false }
  return { nat_port_mappings: portMappings.map(mappingOf) }
}

function mappingOf({ protocol, containerPort, containerPortEnd, description }: PortMapping) {
  return {
    protocol: protocol === 'udp' ? ('udp' as const) : ('tcp' as const),
    container_port: containerPort,
    container_port_end: containerPortEnd,
    description,
  }
}

function missing(field: string): BerthError {
  return new BerthError('invalid', 'missing_field', `${field}: is required, because the backup does not contain it`, {
    field,
  })
}
