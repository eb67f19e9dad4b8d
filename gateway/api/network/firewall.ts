import { Type, type Static } from 'typebox'
import { checkFirewall, firewallWords } from '../../../shared/firewall-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { Firewall, type FirewallRule } from '../../../proto/gen/berth/agent/v1/network.js'
import type { Fleet } from '../../fleet/contract.js'
import { revisionEtag } from '../../http/if-match.js'
import { envelopeAround } from '../../http/reply.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { changeSetting } from '../guests/settings.js'
import { ContainerPathSchema } from '../guests/containers.js'

const optional = Type.Optional
const { directions, protocols, actions, networks } = firewallWords

const ruleFields = {
  direction: oneOf(directions, 'Who opens the connection: the other side (`in`) or the container (`out`).'),
  protocol: oneOf(protocols, '`icmp` is ICMP and ICMPv6.'),
  action: oneOf(actions),
}
const sourceIp = 'The other side: address, CIDR or range `A-B`; empty: any.'
const port = 'Of the side that is connected to: `80`, `80,443`, `1000-2000`; tcp and udp only; empty: any.'

const RuleSchema = Type.Object({
  id: Type.String(),
  ...ruleFields,
  network: oneOf(networks),
  source_ip: Type.String({ description: sourceIp }),
  port: Type.String({ description: port }),
  description: Type.String(),
})

const FirewallSchema = Type.Object({
  enabled: Type.Boolean(),
  default_action: oneOf(actions, 'For what no rule matches.'),
  rules: Type.Array(RuleSchema, { description: 'The first that matches decides.' }),
})
type FirewallRow = Static<typeof FirewallSchema>

/** Lists of ports are bounded by their number, not their length. */
const maxText = 1024
const text = (description: string) => optional(Type.String({ maxLength: maxText, description }))

const FirewallBodySchema = Type.Object({
  enabled: Type.Boolean(),
  default_action: oneOf(actions),
  rules: Type.Array(
    Type.Object({
      id: text('As read; absent for a new rule.'),
      ...ruleFields,
      network: optional(oneOf(networks, 'Default all.')),
      source_ip: text(sourceIp),
      port: text(port),
      description: text('One line.'),
    }),
    { maxItems: networkLimits.firewallRules },
  ),
})

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
    summary: 'The firewall of a container; its ETag serves If-Match as the detail’s does',
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
    summary: 'Replaces the whole firewall at once; established connections obey it too',
    body: FirewallBodySchema,
    errors: ['invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: async (context) => {
      const firewall = planFirewall(context.body)
      const state = firewall.enabled ? `on, default ${firewall.defaultAction}` : 'off'
      const detail = `${state}, ${firewall.rules.length} rules`
      const { response } = await changeSetting(fleet, context, detail, (settings, target) =>
        settings.setFirewall({ ...target, firewall }),
      )
      return { message: 'firewall updated', data: firewallRow(response.firewall) }
    },
  })
}

/** @throws {BerthError} `invalid_field` */
function planFirewall(body: Static<typeof FirewallBodySchema>): Firewall {
  const rules = body.rules.map((rule) => ({
    id: rule.id ?? '',
    direction: rule.direction,
    protocol: rule.protocol,
    action: rule.action,
    network: rule.network ?? 'all',
    sourceIp: rule.source_ip ?? '',
    port: rule.port ?? '',
    description: rule.description ?? '',
  }))
  const checked = checkFirewall({ enabled: body.enabled, defaultAction: body.default_action, rules })
  return { ...checked, rules: [...checked.rules] }
}

/** A container that never had one: off. */
function firewallRow(firewall = Firewall.create()): FirewallRow {
  return {
    enabled: firewall.enabled,
    default_action: firewall.defaultAction === 'DROP' ? 'DROP' : 'ACCEPT',
    rules: firewall.rules.map(ruleRow),
  }
}

/** The agent's words are those of the schema; others are shown as they come, for the reader to see. */
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
