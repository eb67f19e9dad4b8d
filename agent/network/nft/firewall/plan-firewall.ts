import { BerthError } from '../../../../shared/errors.js'
import type { Firewall, FirewallRule } from '../../../../shared/firewall-rules.js'

/** Rules of a guest's two chains in nft's input form, which differs from the form that nft prints. */
export interface FirewallChains {
  readonly device: string
  /** For flows opened towards the guest. */
  readonly in: readonly string[]
  /** For flows opened by the guest. */
  readonly out: readonly string[]
}

/*
 * ACCEPT returns from the chain, so later rules still apply. Rules match the tracked flow: packets of both directions,
 * and errors about the flow, match like its first packet. The remote address is the one before any mapping. The port is
 * the guest's own after a mapping (in), or the one that the guest requested (out).
 */
const sides = {
  in: { address: 'saddr', port: 'ct reply proto-src' },
  out: { address: 'daddr', port: 'ct original proto-dst' },
} as const

const verdicts: Readonly<Record<FirewallRule['action'], string>> = { ACCEPT: 'return', DROP: 'drop' }
const protocols = { tcp: '6', udp: '17', icmp: '{ 1, 58 }' } as const

/**
 * @returns undefined if the firewall is off
 * @throws {BerthError} `internal_error` if a value does not match its pattern, so that nothing unchecked reaches nft
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
 * nft 1.0.6 knows the type of a flow's port only after a family, so a port rule for both families becomes two rules.
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
  if (!valid) throw new BerthError('internal', 'internal_error', 'firewall rule out of its rules')
}
