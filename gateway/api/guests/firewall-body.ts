import { Type, type Static } from 'typebox'
import type { Firewall, FirewallRule } from '../../../proto/gen/berth/agent/v1/network.js'
import { BerthError, invalidField } from '../../../shared/errors.js'
import { checkFirewall, firewallWords } from '../../../shared/firewall-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { numeric, restricts, trimmed } from '../../http/normalize.js'
import { fieldName } from '../../http/refusal.js'
import { oneOf } from '../../http/schema.js'

const optional = Type.Optional
const { directions, protocols, actions, networks } = firewallWords

const ruleFields = {
  direction: oneOf(directions, 'Side that opens the connection. `in`: the remote side. `out`: the container.'),
  protocol: oneOf(protocols, 'Protocol of the matched packets. `icmp` includes ICMP and ICMPv6.'),
  action: oneOf(actions, 'Action for matched connections. `ACCEPT`: allow them. `DROP`: block them.'),
}
const sourceIp =
  'Address of the remote side (the side that is not the container), in both directions: one address, a CIDR or a range `A-B`. Empty: any address.'
const port = 'Destination port: `80`, `80,443` or `1000-2000`, only for tcp and udp. Empty: any port.'

export const RuleSchema = Type.Object(
  {
    id: Type.String(),
    ...ruleFields,
    network: oneOf(networks),
    source_ip: Type.String({ description: sourceIp }),
    port: Type.String({ description: port }),
    description: Type.String(),
  },
  { title: 'FirewallRule' },
)

/** Maximum length of texts. The schemas limit the number of ports in a list separately. */
const maxText = 1024
const text = (description: string, more: object = {}) =>
  optional(Type.String({ ...more, maxLength: maxText, description }))

export const FirewallBodySchema = Type.Object(
  {
    enabled: Type.Boolean({ description: '`true`: turn the firewall on. `false`: turn it off; the rules are kept.' }),
    default_action: optional(
      oneOf(
        actions,
        'Action for connections that match no rule. Required if `enabled` is `true`. If omitted while `enabled` is `false`, it is unchanged.',
      ),
    ),
    rules: optional(
      Type.Array(
        Type.Object({
          id: text('Id of an existing rule. If omitted, the rule is new.', trimmed),
          ...ruleFields,
          network: optional(
            oneOf(networks, 'Addresses to which the rule applies: `ipv4`, `ipv6` or `all`. Default: `all`.'),
          ),
          // Text that consists of spaces is rejected. Trimmed, it would be empty and match all sources or ports.
          source_ip: text(sourceIp),
          port: text(port, numeric),
          description: text('Description of the rule, on one line.'),
        }),
        {
          ...restricts,
          maxItems: networkLimits.firewallRules,
          description: 'All rules, which replace the existing ones. If omitted, the rules are unchanged.',
        },
      ),
    ),
  },
  {
    title: 'NewFirewall',
    description: 'Firewall: whether it is on, its rules, and the action for connections that match no rule.',
  },
)
export type FirewallBody = Static<typeof FirewallBodySchema>

/**
 * Converts the body of a request. Fields that were not sent keep their stored value.
 * @throws {BerthError} `invalid_field`, `missing_field`
 */
export function planFirewall(body: FirewallBody, stored?: Firewall): Firewall {
  if (body.enabled && body.default_action === undefined)
    throw new BerthError('invalid', 'missing_field', 'default_action: is required if enabled is true', {
      field: 'default_action',
    })
  const { default_action: defaultAction = stored?.defaultAction === 'DROP' ? 'DROP' : 'ACCEPT' } = body
  const rules = body.rules ? planRules(body.rules) : (stored?.rules ?? [])
  const checked = checkFirewall({ enabled: body.enabled, defaultAction, rules })
  return { ...checked, rules: [...checked.rules] }
}

function planRules(rules: NonNullable<FirewallBody['rules']>): FirewallRule[] {
  rules.forEach(refuseUnknown)
  return rules.map((rule) => ({
    id: rule.id ?? '',
    direction: rule.direction,
    protocol: rule.protocol,
    action: rule.action,
    network: rule.network ?? 'all',
    sourceIp: rule.source_ip ?? '',
    port: rule.port ?? '',
    description: rule.description ?? '',
  }))
}

/** Rejects unknown fields. With a misspelt field, a rule would match more. @throws {BerthError} `invalid_field` */
function refuseUnknown(rule: object, index: number): void {
  const unknown = Object.keys(rule).find((name) => !Object.hasOwn(RuleSchema.properties, name))
  if (unknown === undefined) return
  const field = `rules.${index}.${fieldName(unknown)}`
  throw invalidField(field, `${field}: is not a field of a rule`)
}

/** Describes a firewall for the audit log. */
export function describeFirewall({ enabled, defaultAction, rules: { length } }: Firewall): string {
  const state = enabled ? `on, default ${defaultAction}` : 'off'
  return `${state}, ${length} ${length === 1 ? 'rule' : 'rules'}`
}
