import { Type, type Static } from 'typebox'
import { isBound, type Principal } from '../../access/principal.js'
import { coversScope } from '../../access/scopes.js'
import { oneOf } from '../../http/schema.js'
import { networkLimits } from '../../../shared/network-limits.js'
import type { FirewallRow } from '../network/firewall.js'

const actions = ['start', 'reset_traffic', 'set_expiry', 'add_port_mapping', 'open_firewall'] as const

export const RepairSchema = Type.Object(
  {
    action: oneOf(actions),
    method: oneOf(['POST', 'PUT']),
    path: Type.String({ description: 'Path of the request below `/api/v1`.' }),
    body: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
      description: 'Body of the request. `null`: the caller must choose the content.',
    }),
    if_match: Type.String({
      description:
        'Value for the header `If-Match` of the request, so that it does not overwrite a newer change. Empty: the request does not need the header.',
    }),
  },
  { title: 'ConnectionRepair' },
)
export type ConnectionRepair = Static<typeof RepairSchema>

/** Facts about a connection that failed, from which a repair is planned. */
export interface ConnectionFailure {
  readonly guestId: number
  readonly port: number
  /** Code of the first failed step of the diagnosis. */
  readonly code: string
  /** The guest's firewall and its ETag. Absent: the caller may not read it. */
  readonly firewall?: FirewallRow | undefined
  readonly firewallEtag?: string
}

interface Offer {
  readonly action: (typeof actions)[number]
  readonly method: ConnectionRepair['method']
  /** Path of the request below `/containers/{id}`. */
  readonly path: string
  readonly scope: string
  /** True if the request is only for callers that may access all guests. */
  readonly unboundOnly?: boolean
  /** True if sub-users may not send the request. */
  readonly notSubUsers?: boolean
  readonly body: (failing: ConnectionFailure) => ConnectionRepair['body']
  readonly ifMatch?: (failing: ConnectionFailure) => string
}

const start: Offer = { action: 'start', method: 'POST', path: 'start', scope: 'container:power', body: () => ({}) }

const offers: Readonly<Record<string, Offer>> = {
  not_running: start,
  // After a stop for abuse, only callers that may access all guests can start the guest again.
  stopped_for_abuse: { ...start, unboundOnly: true },
  traffic_used_up: {
    action: 'reset_traffic',
    method: 'POST',
    path: 'traffic-reset',
    scope: 'container:traffic',
    notSubUsers: true,
    body: () => ({}),
  },
  expired: {
    action: 'set_expiry',
    method: 'PUT',
    path: 'expiry',
    scope: 'container:resize',
    notSubUsers: true,
    body: () => null,
  },
  no_mapping: {
    action: 'add_port_mapping',
    method: 'POST',
    path: 'port-mappings',
    scope: 'container:network',
    body: ({ port }) => ({ protocol: 'tcp', container_port: port }),
  },
  firewall_drops: {
    action: 'open_firewall',
    method: 'PUT',
    path: 'firewall',
    scope: 'container:network',
    body: openPort,
    ifMatch: ({ firewallEtag = '' }) => firewallEtag,
  },
}

/** Inserts, before all other rules, a rule that permits the port for all sources. */
function openPort({ firewall, port }: ConnectionFailure): ConnectionRepair['body'] {
  if (!firewall || firewall.rules.length >= networkLimits.firewallRules) return null
  const ours = { direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', port: String(port) }
  return { ...firewall, rules: [ours, ...firewall.rules] }
}

/**
 * Plans a request that would repair the connection.
 * @returns null if no request would repair it, or the caller may not send the request
 */
export function planRepair(failing: ConnectionFailure, caller: Principal): ConnectionRepair | null {
  const offer = Object.hasOwn(offers, failing.code) ? offers[failing.code] : undefined
  if (!offer || !mayUse(offer, caller)) return null
  const { action, method, path, body, ifMatch = () => '' } = offer
  const place = `/containers/${failing.guestId}/${path}`
  return { action, method, path: place, body: body(failing), if_match: ifMatch(failing) }
}

function mayUse({ scope, unboundOnly, notSubUsers }: Offer, caller: Principal): boolean {
  if (!coversScope(caller.scopes, scope)) return false
  if (unboundOnly === true && isBound(caller)) return false
  return notSubUsers !== true || caller.subUser === undefined
}
