import { Type, type Static } from 'typebox'
import { checkFirewall, firewallWords } from '../../../shared/firewall-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { BerthError, invalidField } from '../../../shared/errors.js'
import { Firewall, type FirewallRule, type GetFirewallResponse } from '../../../proto/gen/berth/agent/v1/network.js'
import type { Fleet } from '../../fleet/contract.js'
import { fieldName } from '../../http/refusal.js'
import { ifRevisionOf, revisionEtag } from '../../http/if-match.js'
import { numeric, restricts, trimmed } from '../../http/normalize.js'
import { envelopeAround } from '../../http/reply.js'
import { route, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { changeSetting, type ChangedSetting } from '../guests/guest-settings.js'
import { ContainerPathSchema } from '../guests/containers.js'

const optional = Type.Optional
const { directions, protocols, actions, networks } = firewallWords

const ruleFields = {
  direction: oneOf(directions, 'Side that opens the connection. `in`: the remote side. `out`: the container.'),
  protocol: oneOf(protocols, 'Protocol of the matched packets. `icmp` includes ICMP and ICMPv6.'),
  action: oneOf(actions),
}
const sourceIp =
  'Address of the remote side (the side that is not the container), in both directions: one address, a CIDR or a range `A-B`. Empty: any address.'
const port = 'Destination port: `80`, `80,443` or `1000-2000`, only for tcp and udp. Empty: any port.'

const RuleSchema = Type.Object(
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

const FirewallSchema = Type.Object(
  {
    enabled: Type.Boolean(),
    default_action: oneOf(actions, 'Action for connections that match no rule.'),
    rules: Type.Array(RuleSchema, {
      description: 'Rules in the order in which they are compared with a connection. The first matching rule decides.',
    }),
  },
  { title: 'Firewall' },
)
export type FirewallRow = Static<typeof FirewallSchema>

/** Maximum length of texts. The schemas limit the number of ports in a list separately. */
const maxText = 1024
const text = (description: string, more: object = {}) =>
  optional(Type.String({ ...more, maxLength: maxText, description }))

const FirewallBodySchema = Type.Object(
  {
    enabled: Type.Boolean(),
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
          // Text of only spaces is not trimmed, so that it is rejected. Empty text would match all sources or ports.
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
  { title: 'NewFirewall' },
)
type FirewallBody = Static<typeof FirewallBodySchema>

const common = {
  path: '/containers/{id}/firewall',
  scope: 'container:network',
  bound: 'guest',
  tag: 'Firewall',
  params: ContainerPathSchema,
  data: FirewallSchema,
} as const

export function firewallRoutes(fleet: Fleet): Route[] {
  return [readRoute(fleet), replaceRoute(fleet)]
}

function readRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'GET',
    name: 'getFirewall',
    subUser: 'allowed',
    summary:
      'Returns the firewall of a container. The ETag of the answer can be sent as `If-Match` in later changes of the container',
    errors: ['host_offline', 'agent_timeout'],
    handle: async ({ guest: { hostId, guest } }) => {
      const answer = await fleet.agent(hostId).settings.getFirewall({ uuid: guest.uuid })
      const body = envelopeAround(JSON.stringify(firewallRow(answer.firewall)))
      return { prepared: { body, etag: revisionEtag(answer.revision, body) } }
    },
  })
}

function replaceRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'PUT',
    audit: 'container.firewall',
    conditional: true,
    name: 'replaceFirewall',
    subUser: 'allowed',
    summary:
      'Changes the firewall of a container immediately, also for established connections. Fields that are not sent stay unchanged',
    body: FirewallBodySchema,
    example: {
      enabled: true,
      default_action: 'DROP',
      rules: [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', port: '22,80' }],
    },
    errors: ['invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: async (context) => {
      const { firewall } = await replaceFirewall(fleet, context)
      return { message: 'firewall updated', data: firewallRow(firewall) }
    },
  })
}

type ReplaceContext = RequestContext<unknown, unknown, FirewallBody> & Subjects['guest']

/** Maximum number of attempts if other requests change the firewall at the same time. */
const maxAttempts = 5

async function replaceFirewall(fleet: Fleet, context: ReplaceContext): Promise<ChangedSetting> {
  for (let attempt = 1; ; attempt++) {
    const stored = await findStored(fleet, context)
    try {
      return await sendFirewall(fleet, context, stored)
    } catch (error) {
      const overtaken = error instanceof BerthError && error.code === 'precondition_failed'
      const ours = stored !== undefined && ifRevisionOf(context.headers) === 0
      if (!overtaken || !ours || attempt === maxAttempts) throw error
    }
  }
}

/** Reads the stored firewall, unless the request replaces all of it. */
async function findStored(fleet: Fleet, context: ReplaceContext): Promise<GetFirewallResponse | undefined> {
  if (context.body.rules && context.body.default_action) return undefined
  const { hostId, guest } = context.guest
  return fleet.agent(hostId).settings.getFirewall({ uuid: guest.uuid })
}

async function sendFirewall(
  fleet: Fleet,
  context: ReplaceContext,
  stored: GetFirewallResponse | undefined,
): Promise<ChangedSetting> {
  const firewall = planFirewall(context.body, stored?.firewall)
  const state = firewall.enabled ? `on, default ${firewall.defaultAction}` : 'off'
  const { length } = firewall.rules
  const detail = `${state}, ${length} ${length === 1 ? 'rule' : 'rules'}`
  const change = { $case: 'firewall', value: firewall } as const
  return changeSetting(fleet, context, { change, detail, ifRevision: stored?.revision ?? 0 })
}

/** @throws {BerthError} `invalid_field`, `missing_field` */
function planFirewall(body: FirewallBody, stored?: Firewall): Firewall {
  if (body.enabled && body.default_action === undefined)
    throw new BerthError('invalid', 'missing_field', 'default_action: is required if enabled is true', {
      field: 'default_action',
    })
  const { default_action: defaultAction = firewallRow(stored).default_action } = body
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

/** Rejects unknown fields: without a misspelt field, a rule would match more. @throws {BerthError} `invalid_field` */
function refuseUnknown(rule: object, index: number): void {
  const unknown = Object.keys(rule).find((name) => !Object.hasOwn(RuleSchema.properties, name))
  if (unknown === undefined) return
  const field = `rules.${index}.${fieldName(unknown)}`
  throw invalidField(field, `${field}: is not a field of a rule`)
}

/** Converts a firewall to a row. A container without a firewall is shown with a firewall that is off. */
export function firewallRow(firewall = Firewall.create()): FirewallRow {
  return {
    enabled: firewall.enabled,
    default_action: firewall.defaultAction === 'DROP' ? 'DROP' : 'ACCEPT',
    rules: firewall.rules.map(ruleRow),
  }
}

/** Converts a rule to a row. Values of an agent that are not in the schema are shown as they are. */
function ruleRow(rule: FirewallRule): FirewallRow['rules'][number] {
  return {
    id: rule.id,
    direction: rule.direction as (typeof directions)[number],
    protocol: rule.protocol as (typeof protocols)[number],
    action: rule.action as (typeof actions)[number],
    network: rule.network as (typeof networks)[number],
    source_ip: rule.sourceIp,
    port: rule.port,
    description: rule.description,
  }
}
