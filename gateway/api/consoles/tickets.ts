import { Type } from 'typebox'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, invalidField, notFound } from '../../../shared/errors.js'
import { checkProgram, maxProgramBytes, maxProgramWords } from '../../../shared/program-rules.js'
import { credentialOf } from '../../access/grants.js'
import { mayFind } from '../../access/principal.js'
import { checkGuest, scopeOf } from '../../console/consoles.js'
import { describeUse, ticketSeconds, ticketsPerMinute, type ConsoleTickets, type Grant } from '../../console/tickets.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { requireFeature } from '../../fleet/require-feature.js'
import { containerRef, keepsEntries } from '../../http/normalize.js'
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

const SshTicketBodySchema = Type.Object(
  {
    ...TicketBodySchema.properties,
    command: Type.Optional(
      Type.Array(Type.String(), {
        ...keepsEntries,
        minItems: 1,
        maxItems: maxProgramWords,
        description: `Program and arguments for mode \`run\`, which runs the program in the container as root without a terminal. No shell interprets them. At most ${maxProgramBytes} bytes in total. Absent: the ticket is for a terminal.`,
      }),
    ),
  },
  { title: 'SshTicketRequest' },
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

const limitText = `The ticket is valid for one connection within ${ticketSeconds} seconds. A caller gets at most ${ticketsPerMinute} tickets a minute for each container; more are answered with 429 \`rate_limited\``

const texts = {
  ssh: {
    name: 'createSshTicket',
    summary: `Creates a ticket for a terminal. The WebSocket \`/ssh?container=NAME\` opens the terminal; its query can contain \`mode\` (\`shell\`, \`serial\` or \`run\`), \`cols\`, \`rows\`, \`resume\` and \`received\`. A request with \`command\` creates a ticket that is only valid for \`mode=run\`; for virtual machines its answer is 400 \`unsupported\`. ${limitText}`,
  },
  vnc: {
    name: 'createVncTicket',
    summary: `Creates a ticket for the screen of a virtual machine. The WebSocket \`/vnc?container=NAME\` opens the screen. For LXC containers the answer is 400 \`unsupported\`. ${limitText}`,
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
    body: kind === 'ssh' ? SshTicketBodySchema : TicketBodySchema,
    example: { container_name: 'web1' },
    data: TicketSchema,
    errors: [
      ...(['not_found', 'unsupported', 'invalid_state', 'policy_blocked', 'host_offline', 'rate_limited'] as const),
      ...(kind === 'ssh' ? (['agent_outdated'] as const) : []),
    ],
    handle: async (context) => {
      const { body, caller } = context
      const ref = body.container_name || body.container
      if (!ref) throw invalidField('container_name', 'container_name: is required')
      const found = view.findGuest(ref)
      if (!found || !mayFind(caller, found)) throw notFound('container')
      const { name, uuid } = found.guest
      const use = commandOf(kind, body)
      context.audit({ target: name, containerUuid: uuid, detail: describeUse(kind, use) })
      if (!found.guest.policyBlocked) refuseWithoutScreen(kind, found.guest)
      checkGuest(found)
      if (use.command) checkCanRun(view, found)
      const grant = { kind, guestUuid: uuid, principal: caller.ref, credential: credentialOf(caller), ...use }
      return { data: { ticket: await tickets.issue(grant, caller.root), expires_in: ticketSeconds } }
    },
  })
}

/** Reads the program of a ticket. @throws {BerthError} `invalid_field` */
function commandOf(kind: Grant['kind'], body: object): Pick<Grant, 'command'> {
  const { command } = body as { readonly command?: readonly string[] }
  return kind === 'ssh' && command !== undefined ? { command: checkProgram(command) } : {}
}

/** Checks that the guest can run programs without a terminal. @throws {BerthError} `unsupported`, `agent_outdated` */
function checkCanRun(view: FleetView, { guest, hostId }: GuestView): void {
  if (guest.virtualization === 'kvm')
    throw new BerthError(
      'invalid',
      'unsupported',
      `programs can only be run in containers, not in virtual machines: use SSH, such as berth ssh ${guest.name} -- COMMAND`,
    )
  const host = view.findHost(hostId)
  if (host) requireFeature(host, 'run')
}

/** Rejects a screen console of a guest without a screen. @throws {BerthError} `unsupported` */
function refuseWithoutScreen(kind: Grant['kind'], { virtualization }: Pick<Guest, 'virtualization'>): void {
  if (kind === 'vnc' && virtualization !== 'kvm')
    throw new BerthError('invalid', 'unsupported', 'only virtual machines have a screen: use an SSH ticket')
}
