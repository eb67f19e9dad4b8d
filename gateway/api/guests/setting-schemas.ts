import { Type, type TInteger, type TOptional } from 'typebox'
import { descriptionPattern, limits } from '../../../shared/guest-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { numeric, trimmed } from '../../http/normalize.js'
import { interfacePattern } from '../../http/pattern-rules.js'
import { oneOf } from '../../http/schema.js'

/* Schemas of the request fields for a container's settings, for creations and changes. */

const optional = Type.Optional

export function integerWithin(range: { min: number; max: number }, description?: string): TOptional<TInteger> {
  const bounds = { minimum: range.min, maximum: range.max }
  return optional(Type.Integer({ ...bounds, ...(description === undefined ? {} : { description }) }))
}

const port = (minimum: number, description?: string) =>
  Type.Integer({ minimum, maximum: 65_535, ...(description === undefined ? {} : { description }) })

export const HostIpSchema = Type.String({
  ...trimmed,
  maxLength: 64,
  description: 'Address of the host at which the mapping accepts connections. `0.0.0.0`: every address.',
})
export const ProtocolSchema = oneOf(['tcp', 'udp'], 'Protocol for which the ports must be free. Default: `tcp`.')

export const MappingBodySchema = Type.Object(
  {
    protocol: optional(oneOf(['tcp', 'udp'], 'Protocol of the mapping. Default for a new mapping: `tcp`.')),
    container_port: port(1, 'Port of the container, or the first port of a range.'),
    host_port: optional(
      port(
        0,
        'Port of the host, or the first port of a range. 0, or omitted in a new mapping: it is chosen automatically.',
      ),
    ),
    host_ip: optional(HostIpSchema),
    container_port_end: optional(
      port(
        0,
        'Last container port of a range. If omitted or 0, it is derived from `host_port_end`; if both are omitted, a single port is mapped.',
      ),
    ),
    host_port_end: optional(
      port(
        0,
        'Last host port of a range. If omitted or 0, it is derived from `container_port_end`; if both are omitted, a single port is mapped.',
      ),
    ),
    description: optional(
      Type.String({
        pattern: descriptionPattern,
        description: 'Description of the mapping: at most 200 printable characters on one line.',
      }),
    ),
  },
  { title: 'NewPortMapping' },
)

export const MappingChangeSchema = Type.Partial(MappingBodySchema)

const mbps = integerWithin(limits.networkMbps, 'Maximum rate in Mbit/s. 0: unlimited.')
const ioMbps = integerWithin(limits.ioMbps, 'Maximum rate in MB/s. 0: unlimited.')
const iops = integerWithin(limits.iops, 'Maximum number of I/O operations per second. 0: unlimited.')
const legacy = (both: string) =>
  `Deprecated: sets the rate of ${both}. A value above 0 in the field of one direction takes precedence.`
const legacyMbps = integerWithin(limits.networkMbps, legacy('both directions'))
const legacyIoMbps = integerWithin(limits.ioMbps, legacy('both reads and writes'))

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
  integerWithin(networkLimits.trafficGb, `${what}, in GB (10^9 bytes) per month. 0: unlimited.`)

export const trafficFields = {
  traffic_mode: optional(
    oneOf(
      ['total', 'split', 'in_out'],
      '`total`: one quota for both directions together. `split`: a separate quota for each direction. `in_out`: alias of `split`.',
    ),
  ),
  monthly_traffic_gb: gbPerMonth('In `total` mode: quota for received and sent traffic together'),
  traffic_in_gb: gbPerMonth('In `split` mode: quota for received traffic'),
  traffic_out_gb: gbPerMonth('In `split` mode: quota for sent traffic'),
  traffic_action: optional(
    oneOf(
      ['stop', 'throttle', 'none'],
      'Action when a traffic quota is used up. `stop` (default): stop the container and refuse starts as long as the quota is used up. `throttle`: reduce the network rate of the container. `none`: do nothing.',
    ),
  ),
  traffic_throttle_mbps: integerWithin(
    limits.networkMbps,
    'Maximum rate in Mbit/s while the container is throttled. 0: the rate configured for the host.',
  ),
  traffic_reset_day: integerWithin(
    networkLimits.resetDay,
    'Day of the month on which a traffic period begins. In months that lack this day, the period begins on the last day. 0: the day configured for the host.',
  ),
}

export const ExpirySchema = Type.String({
  ...trimmed,
  ...numeric,
  maxLength: 64,
  description:
    'Time at which the container expires: `YYYY-MM-DD HH:MM[:SS]`, RFC 3339, a date (the end of that day) or Unix seconds. Empty, `0` or `0000-00-00`: never. A container whose time is in the past is blocked immediately.',
})

const addressCount = (description: string) => integerWithin(networkLimits.addresses, description)

export const ipv4Fields = {
  assign_ipv4: optional(
    Type.Boolean({
      description:
        '`true`: assign one address if `ipv4_count` and `public_ipv4s` request none. `false`: assign none; `ipv4_count` is ignored, and `public_ipv4s` must be empty. If omitted, these two fields decide.',
    }),
  ),
  ipv4_count: addressCount('Number of addresses to choose from the pool of the host, in addition to `public_ipv4s`.'),
  public_ipv4s: optional(
    Type.Array(Type.String({ format: 'ipv4', examples: ['203.0.113.7'] }), {
      maxItems: networkLimits.addresses.max,
      description: 'Public IPv4 addresses to assign, from the pool of the host.',
    }),
  ),
}

/** Fields that select IPv6 addresses, for creations and `POST …/ipv6`. */
export const ipv6ListFields = {
  ipv6_count: addressCount(
    'Number of addresses to choose from the IPv6 prefixes of the host, in addition to `ipv6_addresses`.',
  ),
  ipv6_addresses: optional(
    Type.Array(Type.String({ format: 'ipv6', examples: ['2001:db8::7'] }), {
      maxItems: networkLimits.addresses.max,
      description: 'IPv6 addresses to assign, from the prefixes of the host.',
    }),
  ),
}

/** Name of a network interface of the host. */
export const InterfaceSchema = optional(
  Type.String({
    ...trimmed,
    pattern: interfacePattern,
    description:
      'Network interface of the host, at most 15 characters. Omitted or empty: the interface of the default route.',
    examples: ['eth0'],
  }),
)

/** Schemas of optional addresses. */
export const OptionalIpv4Schema = optional(
  Type.String({ format: 'ipv4', description: 'IPv4 address. Omitted or empty: none.' }),
)
export const OptionalIpv6Schema = optional(
  Type.String({ format: 'ipv6', description: 'IPv6 address. Omitted or empty: none.' }),
)
