import { Type, type TInteger, type TOptional } from 'typebox'
import { descriptionPattern, limits } from '../../../shared/guest-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { numeric, trimmed } from '../../http/normalize.js'
import { interfacePattern } from '../../http/pattern-rules.js'
import { oneOf } from '../../http/schema.js'

/* Request fields of a container's settings, the same at its creation and later. */

const optional = Type.Optional

/** An optional integer. */
export function integerWithin(
  range: { min: number; max: number },
  description?: string,
): TOptional<TInteger> {
  const bounds = { minimum: range.min, maximum: range.max }
  return optional(Type.Integer({ ...bounds, ...(description === undefined ? {} : { description }) }))
}

const port = (minimum: number, description?: string) =>
  Type.Integer({ minimum, maximum: 65_535, ...(description === undefined ? {} : { description }) })

export const HostIpSchema = Type.String({
  ...trimmed,
  maxLength: 64,
  description: 'Host address it answers on; `0.0.0.0`: every one.',
})
export const ProtocolSchema = oneOf(['tcp', 'udp'])

/** A requested port mapping. */
export const MappingBodySchema = Type.Object(
  {
    protocol: optional(oneOf(['tcp', 'udp'], 'Default tcp.')),
    container_port: port(1),
    host_port: optional(port(0, '0 or absent: one is picked.')),
    host_ip: optional(HostIpSchema),
    container_port_end: optional(
      port(0, 'Last port of a range; it follows from host_port_end where absent.'),
    ),
    host_port_end: optional(
      port(0, 'Last port of a range; it follows from container_port_end where absent.'),
    ),
    description: optional(
      Type.String({
        pattern: descriptionPattern,
        description: 'At most 200 printable characters on one line.',
      }),
    ),
  },
  { title: 'NewPortMapping' },
)

export const MappingChangeSchema = Type.Partial(MappingBodySchema)

const mbps = integerWithin(limits.networkMbps, 'Mbps, 0 = unlimited')
const ioMbps = integerWithin(limits.ioMbps, 'MB/s, 0 = unlimited')
const iops = integerWithin(limits.iops, 'Requests a second, 0 = unlimited')
const legacy = (both: string) => `Legacy: ${both}. Split fields above 0 go first; it goes before those of 0.`
const legacyMbps = integerWithin(limits.networkMbps, legacy('both directions'))
const legacyIoMbps = integerWithin(limits.ioMbps, legacy('reads and writes'))

export const rateFields = {
  network_down_mbps: mbps,
  network_up_mbps: mbps,
  io_read_mbps: ioMbps,
  io_write_mbps: ioMbps,
  io_read_iops: iops,
  io_write_iops: iops,
  network_bw_mbps: legacyMbps,
  io_speed_mbps: legacyIoMbps,
}

export const vcpuBounds = { minimum: limits.vcpuMilli.min / 1000, maximum: limits.vcpuMilli.max / 1000 }
export const ramBounds = { minimum: limits.ramMb.min, maximum: limits.ramMb.max }

const gbPerMonth = (what: string) =>
  integerWithin(networkLimits.trafficGb, `${what}, GB of 10^9 bytes a month; 0 = unlimited`)

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
  traffic_throttle_mbps: integerWithin(
    limits.networkMbps,
    'Rate while throttled; 0: the host’s configured one.',
  ),
  traffic_reset_day: integerWithin(
    networkLimits.resetDay,
    'Day of the month on which the count restarts. 29 to 31: the last day in shorter months. 0: the host’s default.',
  ),
}

export const ExpirySchema = Type.String({
  ...trimmed,
  ...numeric,
  maxLength: 64,
  description:
    'YYYY-MM-DD HH:MM[:SS], RFC 3339, a date (its end) or Unix seconds; empty, 0 or 0000-00-00: never. From a time ' +
    'that has passed the container is blocked at once.',
})

const addressCount = (description: string) => integerWithin(networkLimits.addresses, description)

export const ipv4Fields = {
  assign_ipv4: optional(Type.Boolean({ description: 'One, where neither count nor list says more.' })),
  ipv4_count: addressCount('Picked from the pool, beside those of public_ipv4s.'),
  public_ipv4s: optional(
    Type.Array(Type.String({ format: 'ipv4', examples: ['203.0.113.7'] }), {
      maxItems: networkLimits.addresses.max,
    }),
  ),
}

/** Also the fields of `POST …/ipv6`. */
export const ipv6ListFields = {
  ipv6_count: addressCount('Picked from the prefix, beside those of ipv6_addresses.'),
  ipv6_addresses: optional(
    Type.Array(Type.String({ format: 'ipv6', examples: ['2001:db8::7'] }), {
      maxItems: networkLimits.addresses.max,
    }),
  ),
}

/** An interface of the host. */
export const InterfaceSchema = optional(
  Type.String({
    ...trimmed,
    pattern: interfacePattern,
    description: 'Of the host, 15 characters at most; empty: its way out.',
    examples: ['eth0'],
  }),
)

/** An optional address. */
export const OptionalIpv4Schema = optional(Type.String({ format: 'ipv4', description: 'Empty: none.' }))
export const OptionalIpv6Schema = optional(Type.String({ format: 'ipv6', description: 'Empty: none.' }))
