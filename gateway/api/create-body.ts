import { Type, type Static } from 'typebox'
import { descriptionPattern, limits, templateIdPattern } from '../../shared/guest-rules.js'
import { VirtualizationSchema } from './guest-row.js'
import { oneOf } from './schema.js'

const optional = Type.Optional
const port = (minimum: number) => Type.Integer({ minimum, maximum: 65_535 })
const within = (range: { min: number; max: number }, description?: string) =>
  optional(
    Type.Integer({
      minimum: range.min,
      maximum: range.max,
      ...(description === undefined ? {} : { description }),
    }),
  )
const mbps = within(limits.networkMbps, 'Mbps, 0 = unlimited')
const ioMbps = within(limits.ioMbps, 'MB/s, 0 = unlimited')
const addressCount = optional(Type.Integer({ minimum: 0, maximum: 4096 }))
const gbPerMonth = optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000 }))

const NatPortMappingSchema = Type.Object({
  container_port: port(1),
  host_port: optional(port(0)),
  protocol: optional(oneOf(['tcp', 'udp'])),
  description: optional(Type.String({ pattern: descriptionPattern })),
  host_ip: optional(Type.String({ maxLength: 64, description: 'Not available yet: empty or absent.' })),
})

/** `POST /containers`. Unknown fields are ignored. */
export const CreateBodySchema = Type.Object({
  name: Type.String({
    description: '1 to 63 letters, digits, ".", "_", "-"; not all digits, not a uuid; unique in the fleet.',
  }),
  virtualization: Type.Optional(VirtualizationSchema),
  template_id: Type.String({ pattern: templateIdPattern }),
  vcpu: optional(
    Type.Number({
      minimum: limits.vcpuMilli.min / 1000,
      maximum: limits.vcpuMilli.max / 1000,
      description: 'May be fractional. Default 1.',
    }),
  ),
  ram_mb: within(limits.ramMb, 'Default 512.'),
  disk_gb: within(limits.diskGb, 'Default 10.'),
  host_id: optional(Type.String({ maxLength: 64, description: 'Default: the host with most room.' })),
  start: optional(Type.Boolean({ description: 'Start once created. Default true.' })),
  assign_nat: optional(Type.Boolean({ description: 'Default true; false leaves no room for mappings.' })),
  port_mapping_count: within(
    limits.portMappings,
    'NAT mappings to pick: the first leads to container port 22, the others to the container port of the ' +
      'same number as their host port. Default 1, or 0 where nat_port_mappings lead to port 22.',
  ),
  nat_port_mappings: optional(
    Type.Array(NatPortMappingSchema, {
      maxItems: limits.portMappings.max,
      description: 'Explicit mappings; host_port 0 or absent: pick one.',
    }),
  ),
  extra_ports: optional(
    Type.Unknown({
      description: 'Array of container ports, each mapped to a picked host port. Any other type is ignored.',
    }),
  ),
  assign_ipv4: optional(Type.Boolean()),
  ipv4_count: addressCount,
  public_ipv4s: optional(Type.Array(Type.String({ format: 'ipv4' }), { maxItems: 4096 })),
  assign_ipv6: optional(Type.Boolean()),
  ipv6_count: addressCount,
  ipv6_addresses: optional(Type.Array(Type.String({ format: 'ipv6' }), { maxItems: 4096 })),
  ssh_auth_mode: optional(
    oneOf(
      ['auto_password', 'password', 'key', 'keep'],
      'Default auto_password. `keep` is for reinstall only.',
    ),
  ),
  ssh_password: optional(
    Type.String({
      maxLength: 1024,
      description:
        '8 to 64 characters, letters and digits, no whitespace; used in `password` mode, checked in all.',
    }),
  ),
  ssh_public_key: optional(
    Type.String({ maxLength: 16_384, description: 'One line; used in `key` mode, checked in all.' }),
  ),
  expires_at: optional(
    Type.String({ maxLength: 64, description: 'Empty: never; a time is not available yet.' }),
  ),
  network_down_mbps: mbps,
  network_up_mbps: mbps,
  io_read_mbps: ioMbps,
  io_write_mbps: ioMbps,
  network_bw_mbps: mbps,
  io_speed_mbps: ioMbps,
  traffic_mode: optional(
    oneOf(['total', 'split', 'in_out'], '`split`, and `in_out` which means the same: not available yet.'),
  ),
  monthly_traffic_gb: gbPerMonth,
  traffic_in_gb: gbPerMonth,
  traffic_out_gb: gbPerMonth,
  snapshot_limit: optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  user_data: optional(Type.String({ maxLength: 65_536 })),
})

export type CreateBody = Static<typeof CreateBodySchema>
