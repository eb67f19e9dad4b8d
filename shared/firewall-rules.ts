import { parseAddressRange } from './addresses.js'
import { invalidField } from './errors.js'
import { checkDescription, oneOf } from './field-checks.js'
import { networkLimits } from './network-limits.js'

/*
 * Rules of a guest's firewall, checked by the gateway and again by the agent. Accepted values are canonical and are
 * inserted into nft scripts unchanged.
 */

/** A firewall as the caller sent it, before `checkFirewall`. */
export interface WantedFirewall {
  readonly enabled: boolean
  readonly defaultAction: string
  readonly rules: readonly WantedRule[]
}

export interface WantedRule {
  /** Id of the rule. Empty for a new rule. */
  readonly id: string
  readonly direction: string
  readonly protocol: string
  readonly action: string
  readonly network: string
  /** The remote side: an address, a CIDR, or a range `A-B`. Empty: any address. */
  readonly sourceIp: string
  /** A port, a range `A-B`, or several of these, separated by commas. Empty: any port. */
  readonly port: string
  readonly description: string
}

const directions = ['in', 'out'] as const
const ruleProtocols = ['tcp', 'udp', 'icmp', 'all'] as const
const ruleActions = ['ACCEPT', 'DROP'] as const
const networks = ['ipv4', 'ipv6', 'all'] as const

export const firewallWords = { directions, protocols: ruleProtocols, actions: ruleActions, networks } as const

/** A checked rule. The first rule that matches decides. A rule applies to the packets of a flow in both directions. */
export interface FirewallRule extends WantedRule {
  /** The side that opened the flow: `in` is the remote side, `out` is the guest. */
  readonly direction: (typeof directions)[number]
  /** `icmp` covers ICMP and ICMPv6. */
  readonly protocol: (typeof ruleProtocols)[number]
  readonly action: (typeof ruleActions)[number]
  readonly network: (typeof networks)[number]
}

/** A guest's firewall after `checkFirewall`. While it is disabled, it blocks nothing. */
export interface Firewall extends WantedFirewall {
  /** Action when no rule matches. */
  readonly defaultAction: (typeof ruleActions)[number]
  readonly rules: readonly FirewallRule[]
}

/**
 * @returns the firewall with canonical addresses and ports: host bits cleared, ports ascending, overlaps merged
 * @throws {BerthError} `invalid_field`; its field has the form `rules.0.port`
 */
export function checkFirewall(wanted: WantedFirewall): Firewall {
  const defaultAction = oneOf('default_action', wanted.defaultAction, ruleActions)
  if (wanted.rules.length > networkLimits.firewallRules)
    throw invalidField('rules', `rules: at most ${networkLimits.firewallRules} rules are allowed`)
  const ids = wanted.rules.map(({ id }) => id).filter((id) => id !== '')
  const twice = wanted.rules.findIndex(({ id }) => id !== '' && ids.indexOf(id) !== ids.lastIndexOf(id))
  if (twice >= 0) throw invalidField(`rules.${twice}.id`, `rules.${twice}.id: appears more than once`)
  return { enabled: wanted.enabled, defaultAction, rules: wanted.rules.map(checkRule) }
}

function checkRule(wanted: WantedRule, index: number): FirewallRule {
  const at = (field: string): string => `rules.${index}.${field}`
  const protocol = oneOf(at('protocol'), wanted.protocol, ruleProtocols)
  const network = oneOf(at('network'), wanted.network, networks)
  if (!/^[A-Za-z0-9_-]{0,64}$/.test(wanted.id))
    throw invalidField(at('id'), `${at('id')}: must be at most 64 letters, digits, "_" and "-"`)
  const description = checkDescription(at('description'), wanted.description)
  return {
    id: wanted.id,
    direction: oneOf(at('direction'), wanted.direction, directions),
    protocol,
    action: oneOf(at('action'), wanted.action, ruleActions),
    network,
    sourceIp: checkSource(at('source_ip'), wanted.sourceIp, network),
    port: checkRulePorts(at('port'), wanted.port, protocol),
    description,
  }
}

const onlyBlanks = /^ *$/

function checkSource(field: string, text: string, network: FirewallRule['network']): string {
  if (onlyBlanks.test(text)) return ''
  const range = /[^\S ]|\p{Cc}/u.test(text) ? undefined : parseAddressRange(text.trim())
  if (!range) throw invalidField(field, `${field}: must be an IP address, a CIDR or a range A-B`)
  if (network !== 'all' && network !== range.family)
    throw invalidField(
      field,
      `${field}: must be an ${network} address, because the field network of the rule is ${network}`,
    )
  return range.text
}

function checkRulePorts(field: string, text: string, protocol: FirewallRule['protocol']): string {
  if (onlyBlanks.test(text)) return ''
  if (protocol !== 'tcp' && protocol !== 'udp')
    throw invalidField(field, `${field}: only available for the protocols tcp and udp`)
  const parts = text.split(',')
  if (parts.length > networkLimits.rulePorts)
    throw invalidField(field, `${field}: must have at most ${networkLimits.rulePorts} ports and ranges`)
  const ranges = parts.map((part) => parsePortRange(field, part))
  return mergePorts(ranges)
    .map(([first, last]) => (first === last ? String(first) : `${first}-${last}`))
    .join(',')
}

function parsePortRange(field: string, part: string): [number, number] {
  const [, from, to] = /^ *(\d{1,5})(?: *- *(\d{1,5}))? *$/.exec(part) ?? []
  const [first, last] = [Number(from), Number(to ?? from)]
  const { min, max } = networkLimits.port
  if (from === undefined || first < min || last > max || first > last)
    throw invalidField(field, `${field}: must be a port, a comma list or a range A-B, from ${min} to ${max}`)
  return [first, last]
}

/** Merges overlapping ranges of ports, because nft refuses overlaps in a set. */
function mergePorts(ranges: readonly [number, number][]): [number, number][] {
  const merged: [number, number][] = []
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const previous = merged.at(-1)
    if (previous && first <= previous[1]) previous[1] = Math.max(previous[1], last)
    else merged.push([first, last])
  }
  return merged
}
