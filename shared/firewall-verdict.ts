import { isInRange, type AddressFamily } from './addresses.js'
import type { Firewall, FirewallRule } from './firewall-rules.js'

/** A TCP connection from a client to a guest. */
export interface Arrival {
  readonly family: AddressFamily
  /** Address of the client. Empty: a client that matches only rules with an empty `sourceIp`. */
  readonly source: string
  /** Port of the guest. */
  readonly port: number
}

/**
 * Applies a guest's firewall to an incoming connection.
 * @returns the rule that drops the connection, or `default` if no rule matches it; undefined if it is accepted
 */
export function findDropping(firewall: Firewall, arrival: Arrival): FirewallRule | 'default' | undefined {
  if (!firewall.enabled) return undefined
  const rule = firewall.rules.find((one) => one.direction === 'in' && matches(one, arrival))
  const action = rule?.action ?? firewall.defaultAction
  return action === 'DROP' ? (rule ?? 'default') : undefined
}

function matches(rule: FirewallRule, { family, source, port }: Arrival): boolean {
  return (
    (rule.protocol === 'tcp' || rule.protocol === 'all') &&
    (rule.network === 'all' || rule.network === family) &&
    (rule.sourceIp === '' || isInRange(source, rule.sourceIp)) &&
    (rule.port === '' || rule.port.split(',').some((part) => isInSpan(port, part)))
  )
}

function isInSpan(port: number, text: string): boolean {
  const [first = 0, last = first] = text.split('-').map(Number)
  return first <= port && port <= last
}
