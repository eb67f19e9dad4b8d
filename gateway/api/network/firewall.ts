import { Type, type Static } from 'typebox'
import { firewallWords } from '../../../shared/firewall-rules.js'
import { BerthError } from '../../../shared/errors.js'
import { Firewall, type FirewallRule, type GetFirewallResponse } from '../../../proto/gen/berth/agent/v1/network.js'
import type { Fleet } from '../../fleet/contract.js'
import { ifRevisionOf, revisionEtag } from '../../http/if-match.js'
import { envelopeAround } from '../../http/reply.js'
import { route, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import {
  describeFirewall,
  FirewallBodySchema,
  planFirewall,
  RuleSchema,
  type FirewallBody,
} from '../guests/firewall-body.js'
import { changeSetting, type ChangedSetting } from '../guests/guest-settings.js'
import { ContainerPathSchema } from '../guests/containers.js'

const { actions } = firewallWords
type Words = typeof firewallWords

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
  const detail = describeFirewall(firewall)
  const change = { $case: 'firewall', value: firewall } as const
  return changeSetting(fleet, context, { change, detail, ifRevision: stored?.revision ?? 0 })
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
    direction: rule.direction as Words['directions'][number],
    protocol: rule.protocol as Words['protocols'][number],
    action: rule.action as Words['actions'][number],
    network: rule.network as Words['networks'][number],
    source_ip: rule.sourceIp,
    port: rule.port,
    description: rule.description,
  }
}
