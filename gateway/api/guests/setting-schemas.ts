import { Type, type TInteger, type TOptional } from 'typebox'
import { descriptionPattern, limits } from '../../../shared/guest-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { oneOf } from '../../http/schema.js'

/*
 * Request fields of what is set of a container, the same at its creation and later.
 */

const optional = Type.Optional

/** An optional integer. */
export function within(range: { min: number; max: number }, description?: string): TOptional<TInteger> {
  const bounds = { minimum: range.min, maximum: range.max }
  return optional(Type.Integer({ ...bounds, ...(description === undefined ? {} : { description }) }))
}

const port = (minimum: number, description?: string) =>
  Type.Integer({ minimum, maximum: 65_535, ...(description === undefined ? {} : { description }) })

export const HostIpSchema = Type.String({
  maxLength: 64,
  description: 'Host address it answers on; empty: every one.',
})
export const ProtocolSchema = oneOf(['tcp', 'udp'])

/** A port mapping that is asked for. */
export const MappingBodySchema = Type.Object({
  protocol: optional(oneOf(['tcp', 'udp'], 'Default tcp.')),
  container_port: port(1),
  host_port: optional(port(0, '0 or absent: one is picked.')),
  host_ip: optional(HostIpSchema),
  container_port_end: optional(port(0, 'Last port of a range; it follows from host_port_end where absent.')),
  host_port_end: optional(port(0, 'Last port of a range; it follows from container_port_end where absent.')),
  description: optional(Type.String({ pattern: descriptionPattern })),
})

export const MappingChangeSchema = Type.Partial(MappingBodySchema)

const mbps = within(limits.networkMbps, 'Mbps, 0 = unlimited')
const ioMbps = within(limits.ioMbps, 'MB/s, 0 = unlimited')
const legacyMbps = within(limits.networkMbps, 'Legacy: both directions; the split fields go first.')
const legacyIoMbps = within(limits.ioMbps, 'Legacy: reads and writes; the split fields go first.')

export const rateFields = {
  network_down_mbps: mbps,
  network_up_mbps: mbps,
  io_read_mbps: ioMbps,
  io_write_mbps: ioMbps,
  network_bw_mbps: legacyMbps,
  io_speed_mbps: legacyIoMbps,
}

export const vcpuField = optional(
  Type.Number({
    minimum: limits.vcpuMilli.min / 1000,
    maximum: limits.vcpuMilli.max / 1000,
    description: 'May be fractional.',
  }),
)

const gbPerMonth = (what: string) =>
  within(networkLimits.trafficGb, `${what}, GB of 10^9 bytes a month; 0 = unlimited`)

export const trafficFields = {
  traffic_mode: optional(oneOf(['total', 'split', 'in_out'], '`in_out` means `split`.')),
  monthly_traffic_gb: gbPerMonth('Both directions, in `total` mode'),
  traffic_in_gb: gbPerMonth('What it receives, in `split` mode'),
  traffic_out_gb: gbPerMonth('What it sends, in `split` mode'),
  traffic_action: optional(
    oneOf(
      ['stop', 'throttle', 'none'],
      'When a quota is used up: stop and refuse starts (default), bound the rate, or nothing.',
    ),
  ),
  traffic_throttle_mbps: within(limits.networkMbps, 'Rate while throttled; 0: the host’s configured one.'),
  traffic_reset_day: within(
    networkLimits.resetDay,
    'Day of the month on which counting starts anew; 0: the host’s.',
  ),
}

export const ExpirySchema = Type.String({
  maxLength: 64,
  description: 'YYYY-MM-DD HH:MM:SS, RFC 3339, or a date (its end); empty: never.',
})

const addressCount = (description: string) => within(networkLimits.addresses, description)

export const ipv4Fields = {
  assign_ipv4: optional(Type.Boolean({ description: 'One, where neither count nor list says more.' })),
  ipv4_count: addressCount('Picked from the pool, beside those of public_ipv4s.'),
  public_ipv4s: optional(
    Type.Array(Type.String({ format: 'ipv4' }), { maxItems: networkLimits.addresses.max }),
  ),
}

/** The fields of `POST …/ipv6` too. */
export const ipv6ListFields = {
  ipv6_count: addressCount('Picked from the prefix, beside those of ipv6_addresses.'),
  ipv6_addresses: optional(
    Type.Array(Type.String({ format: 'ipv6' }), { maxItems: networkLimits.addresses.max }),
  ),
}

/** An interface of the host. */
export const InterfaceSchema = optional(
  Type.String({ pattern: '^[^\\s/\\u0000-\\u001f]{0,15}$', description: 'Of the host; empty: its way out.' }),
)

/** An optional address; empty is none. */
export const Ipv4OrEmptySchema = optional(Type.String({ anyOf: [{ format: 'ipv4' }, { maxLength: 0 }] }))
export const Ipv6OrEmptySchema = optional(Type.String({ anyOf: [{ format: 'ipv6' }, { maxLength: 0 }] }))
