import { BerthError } from '../../../../shared/errors.js'
import type { Firewall, FirewallRule } from '../../../../shared/firewall-rules.js'

/** Firewall rules of a guest's two chains, as input for nft. The output of nft shows them in another form. */
export interface FirewallChains {
  readonly device: string
  /** Rules for flows that other computers open to the guest. */
  readonly in: readonly string[]
  /** Rules for flows that the guest opens to other computers. */
  readonly out: readonly string[]
}

/*
 * Fields that a firewall rule compares: `in` for flows that another computer opened, `out` for flows that the guest
 * opened. nft takes the fields from the tracked flow. Therefore all packets of the flow, and ICMP errors about the
 * flow, match like its first packet. `address` is the remote address, before any mapping. `port` is the guest's port
 * after the mapping (in), or the port to which the guest has connected (out).
 */
const sides = {
  in: { address: 'saddr', port: 'ct reply proto-src' },
  out: { address: 'daddr', port: 'ct original proto-dst' },
} as const

const verdicts: Readonly<Record<FirewallRule['action'], string>> = { ACCEPT: 'return', DROP: 'drop' }
const protocols = { tcp: '6', udp: '17', icmp: '{ 1, 58 }' } as const

/**
 * Translates a guest's firewall to nft. ACCEPT returns from the chain, so that the rules after the chain still apply.
 * @returns undefined if the firewall is off or not set
 * @throws {BerthError} `internal_error` if a value has unexpected characters, which must not reach nft
 */
export function planFirewall(device: string, firewall: Firewall | undefined): FirewallChains | undefined {
  if (!firewall?.enabled) return undefined
  firewall.rules.forEach(check)
  const rulesOf = (direction: 'in' | 'out'): string[] => [
    ...firewall.rules.filter((rule) => rule.direction === direction).flatMap(planRule),
    verdicts[firewall.defaultAction],
  ]
  return { device, in: rulesOf('in'), out: rulesOf('out') }
}

/**
 * Translates one rule. A rule with ports for IPv4 and IPv6 becomes two nft rules, because nft 1.0.6 accepts ports in a
 * rule only after the family.
 */
function planRule(rule: FirewallRule): string[] {
  const { network, sourceIp, port } = rule
  const family = sourceIp === '' ? network : sourceIp.includes(':') ? 'ipv6' : 'ipv4'
  const each = family === 'all' && port !== '' ? (['ipv4', 'ipv6'] as const) : [family]
  return each.map((one) => planIn(one, rule))
}

function planIn(family: FirewallRule['network'], rule: FirewallRule): string {
  const { address, port } = sides[rule.direction]
  const ip = family === 'ipv6' ? 'ip6' : 'ip'
  return [
    ...(family === 'all' ? [] : [`meta nfproto ${family}`]),
    ...(rule.protocol === 'all' ? [] : [`ct original protocol ${protocols[rule.protocol]}`]),
    ...(rule.sourceIp === '' ? [] : [`ct original ${ip} ${address} ${rule.sourceIp}`]),
    ...(rule.port === '' ? [] : [`${port} { ${rule.port.replaceAll(',', ', ')} }`]),
    verdicts[rule.action],
  ].join(' ')
}

const addresses = /^[0-9a-f.:]+(?:\/\d{1,3}|-[0-9a-f.:]+)?$/
const ports = /^\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*$/

function check({ direction, protocol, action, network, sourceIp, port }: FirewallRule): void {
  const valid =
    Object.hasOwn(sides, direction) &&
    (protocol === 'all' || Object.hasOwn(protocols, protocol)) &&
    Object.hasOwn(verdicts, action) &&
    ['ipv4', 'ipv6', 'all'].includes(network) &&
    (sourceIp === '' || addresses.test(sourceIp)) &&
    (port === '' || (ports.test(port) && (protocol === 'tcp' || protocol === 'udp')))
  if (!valid) throw new BerthError('internal', 'internal_error', 'a stored firewall rule is not valid')
}
