import { mergeCidr } from 'cidr-tools'
import { parseCidrOrAddress } from '../../../../shared/addresses.js'
import { invalidField } from '../../../../shared/errors.js'
import { chain, rule, set, type Item } from './plan-items.js'

export interface ClosedPlan {
  /** Canonical IPv4 and IPv6 addresses and CIDRs. */
  readonly closed: readonly string[]
  /** Name servers of guests. Their port 53 stays open even at a closed address. */
  readonly resolvers: readonly string[]
}

/**
 * Parses `network.closed_destinations` into canonical entries.
 * @throws {BerthError} `invalid_field`
 */
export function parseClosed(entries: readonly string[]): string[] {
  const field = 'network.closed_destinations'
  return entries.map((entry) => {
    const range = parseCidrOrAddress(entry)
    if (!range) throw invalidField(field, `${field}: ${entry} is not an address or a CIDR`)
    return range.text
  })
}

const sides = [
  // Routers must not forward to link-local addresses (RFC 3927, 7; RFC 4291, 2.5.6), but Linux forwards IPv4 to them.
  { ip: 'ip', type: 'ipv4_addr', suffix: '', always: '169.254.0.0/16', family: 'ipv4' },
  { ip: 'ip6', type: 'ipv6_addr', suffix: '6', always: 'fe80::/10', family: 'ipv6' },
] as const

/**
 * Plans rules that stop guests from connecting to `closed` destinations. The most important destination is a cloud's
 * metadata service. Guests use the host's address, so the service would give them the host's user data and credentials.
 * Port 53 of guests' name servers stays open. Guests can reply to a flow that such a destination has opened.
 */
export function planClosed({ closed, resolvers }: ClosedPlan): Item[] {
  const reaching = 'ct direction original'
  return [
    chain('closed'),
    ...sides.flatMap(({ ip, type, suffix, always, family }) => {
      const body = (elements: readonly string[]): string =>
        `type ${type}; flags interval; elements = { ${elements.join(', ')} };`
      const of = (entries: readonly string[]): string[] =>
        entries.filter((entry) => parseCidrOrAddress(entry)?.family === family)
      const names = of(resolvers)
      return [
        set(`closed${suffix}`, body(mergeCidr([always, ...of(closed)]))),
        ...(names.length === 0
          ? []
          : [
              set(`resolvers${suffix}`, body(mergeCidr(names))),
              rule('closed', `${ip} daddr @resolvers${suffix} meta l4proto { tcp, udp } th dport 53 return`),
            ]),
        rule('from_guest', `${ip} daddr @closed${suffix} ${reaching} jump closed`),
      ]
    }),
    rule('closed', 'drop'),
  ]
}
