import { Type } from 'typebox'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, invalidField, notFound } from '../../../shared/errors.js'
import { credentialOf } from '../../access/grants.js'
import { mayFind } from '../../access/principal.js'
import { checkGuest, scopeOf } from '../../console/consoles.js'
import { ticketSeconds, ticketsPerMinute, type ConsoleTickets, type Grant } from '../../console/tickets.js'
import type { FleetView } from '../../fleet/contract.js'
import { containerRef } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'

const TicketBodySchema = Type.Object(
  {
    container_name: Type.Optional(
      Type.String({ ...containerRef, maxLength: 128, description: 'Id, UUID or name of the container.' }),
    ),
    container: Type.Optional(
      Type.String({ ...containerRef, maxLength: 128, description: 'Alias of `container_name`.' }),
    ),
  },
  { title: 'TicketRequest' },
)

const TicketSchema = Type.Object(
  {
    ticket: Type.String({
      description: 'Ticket for one WebSocket connection to this container.',
    }),
    expires_in: Type.Integer({ description: 'Lifetime of the ticket in seconds.' }),
  },
  { title: 'Ticket' },
)

const limitText = `It is valid for one connection within ${ticketSeconds} seconds. A caller gets at most ${ticketsPerMinute} tickets a minute for each container; more are answered with 429 \`rate_limited\``

const texts = {
  ssh: {
    name: 'createSshTicket',
    summary: `Creates a ticket for a terminal, which is opened at the WebSocket \`/ssh?container=NAME\`. ${limitText}`,
  },
  vnc: {
    name: 'createVncTicket',
    summary: `Creates a ticket for the screen of a virtual machine, which is opened at the WebSocket \`/vnc?container=NAME\`. For LXC containers the answer is 400 \`unsupported\`. ${limitText}`,
  },
} as const

export function ticketRoutes({ view, tickets }: { view: FleetView; tickets: ConsoleTickets }): Route[] {
  return (['ssh', 'vnc'] as const).map((kind) => ticketRoute(kind, view, tickets))
}

function ticketRoute(kind: Grant['kind'], view: FleetView, tickets: ConsoleTickets): Route {
  return route({
    method: 'POST',
    path: `/${kind}-ticket`,
    ...texts[kind],
    scope: scopeOf(kind),
    bound: 'own',
    subUser: 'allowed',
    audit: 'console.ticket',
    tag: 'Consoles',
    body: TicketBodySchema,
    example: { container_name: 'web1' },
    data: TicketSchema,
    errors: ['not_found', 'unsupported', 'invalid_state', 'policy_blocked', 'host_offline', 'rate_limited'],
    handle: async (context) => {
      const { body, caller } = context
      const ref = body.container_name || body.container
      if (!ref) throw invalidField('container_name', 'container_name: is required')
      const found = view.findGuest(ref)
      if (!found || !mayFind(caller, found)) throw notFound('container')
      const { name, uuid } = found.guest
      context.audit({ target: name, containerUuid: uuid, detail: kind })
      if (!found.guest.policyBlocked) refuseWithoutScreen(kind, found.guest)
      checkGuest(found)
      const grant = { kind, guestUuid: uuid, principal: caller.ref, credential: credentialOf(caller) }
      return { data: { ticket: await tickets.issue(grant, caller.root), expires_in: ticketSeconds } }
    },
  })
}

/** Rejects a screen console of a guest without a screen. @throws {BerthError} `unsupported` */
function refuseWithoutScreen(kind: Grant['kind'], { virtualization }: Pick<Guest, 'virtualization'>): void {
  if (kind === 'vnc' && virtualization !== 'kvm')
    throw new BerthError('invalid', 'unsupported', 'only virtual machines have a screen: use an SSH ticket')
}
