import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import { parseAddress, parseCidrOrAddress } from '../../../shared/addresses.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { checkPortRange } from '../../../shared/port-mapping-rules.js'
import type { SetRoutingRequest } from '../../../proto/gen/berth/agent/v1/network.js'
import { trimmed } from '../../http/normalize.js'
import { InterfaceSchema, OptionalIpv4Schema, OptionalIpv6Schema } from '../guests/setting-schemas.js'

const optional = Type.Optional
const prefixLength = (maximum: number, description: string) => Type.Integer({ minimum: 0, maximum, description })

/** Maximum number of addresses in a pool. A larger pool would not fit into one answer of an agent. */
const maxPool = 4096

const poolOf = (description: string) =>
  Type.Array(
    Type.Object({
      address: Type.String({ format: 'ipv4', description: 'Public IPv4 address.' }),
      interface: InterfaceSchema,
      prefix_len: optional(prefixLength(32, 'Prefix length of the address. Default: 32.')),
      gateway: OptionalIpv4Schema,
    }),
    { maxItems: maxPool, description },
  )

const PrefixesSchema = Type.Array(
  Type.Object({
    interface: InterfaceSchema,
    address: OptionalIpv6Schema,
    prefix: Type.String({
      ...trimmed,
      maxLength: 49,
      description:
        'Network address of the IPv6 prefix. It may include the prefix length as `/length`; otherwise `prefix_len` is required.',
    }),
    prefix_len: optional(
      prefixLength(128, 'Length of the prefix, if `prefix` does not include it. In a shared pool, at most 80.'),
    ),
    gateway: OptionalIpv6Schema,
  }),
  { maxItems: 256, description: 'IPv6 prefixes from which containers get addresses. Replaces all earlier prefixes.' },
)

const { min: minimum, max: maximum } = networkLimits.natPort
const port = (description: string) => Type.Integer({ minimum, maximum, description })
export const RoutingBodySchema = Type.Object(
  {
    items: optional(poolOf('Same as `public_ipv4_addresses`.')),
    public_ipv4_addresses: optional(
      poolOf('Public IPv4 addresses that containers can get. Replaces all earlier addresses.'),
    ),
    ipv6_prefixes: optional(PrefixesSchema),
    nat4_port_range: optional(
      Type.Object(
        { start: port('First port of the range.'), end: port('Last port of the range.') },
        { description: 'Ports of the host from which Berth chooses ports for mappings.' },
      ),
    ),
  },
  { title: 'NewRouting' },
)
export type RoutingBody = Static<typeof RoutingBodySchema>

/** Converts the lists of a routing request. Omitted lists stay unchanged. @throws {BerthError} `invalid_field` */
export function planRouting(body: RoutingBody): Omit<SetRoutingRequest, 'isChecked'> {
  const pool = body.items ?? body.public_ipv4_addresses
  const range = body.nat4_port_range
  if (range) checkPortRange('nat4_port_range', range)
  return {
    ipv4Pool: pool && { items: pool.map(planPoolAddress) },
    ipv6Prefixes: body.ipv6_prefixes && { items: body.ipv6_prefixes.map(planPrefix) },
    nat4Ports: range && { start: range.start, end: range.end },
  }
}

function planPoolAddress(item: Static<ReturnType<typeof poolOf>>[number]) {
  const { address, interface: name = '', prefix_len: prefixLen = 32, gateway = '' } = item
  return { address, interface: name, prefixLen, gateway }
}

function planPrefix(item: Static<typeof PrefixesSchema>[number], index: number) {
  const { interface: name = '', address = '', gateway = '' } = item
  const network = parseNetwork(item.prefix, item.prefix_len)
  const field = `ipv6_prefixes.${index}.prefix`
  if (!network)
    throw invalidField(field, `${field}: must be an IPv6 network, with its prefix length as /length or in prefix_len`)
  return { interface: name, address, gateway, ...network }
}

/** Parses a network. @returns undefined if the length is missing or contradictory, or if host bits are set */
function parseNetwork(text: string, length?: number): { prefix: string; prefixLen: number } | undefined {
  const [, address = '', behind] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? []
  const prefixLen = length ?? (behind === undefined ? undefined : Number(behind))
  if (prefixLen === undefined || Number(behind ?? prefixLen) !== prefixLen) return undefined
  const [network, first] = [parseCidrOrAddress(`${address}/${prefixLen}`), parseAddress(address)]
  if (network?.family !== 'ipv6' || network.first !== first?.first) return undefined
  return { prefix: first.text, prefixLen }
}
