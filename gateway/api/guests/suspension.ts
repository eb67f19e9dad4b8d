import { Type, type Static } from 'typebox'
import { BerthError, invalidField } from '../../../shared/errors.js'
import { suspensionModes, suspensionTextPattern } from '../../../shared/suspension-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { Fleet, FleetView, GuestView } from '../../fleet/contract.js'
import { numeric, trimmed } from '../../http/normalize.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { ContainerPathSchema } from './containers.js'
import { changeSetting, findAudited, type SettingOrder } from './guest-settings.js'

export const suspendScope = 'container:suspend'

const textOf = (description: string) => Type.String({ ...trimmed, pattern: suspensionTextPattern, description })

export const suspensionFields = {
  reason: textOf(
    'Internal reason of the suspension, which sub-users do not see. At most 500 printable characters on one line.',
  ),
  message: Type.Optional(
    textOf(
      'Message about the suspension that sub-users see. At most 500 printable characters on one line. Default: empty.',
    ),
  ),
  mode: Type.Optional(
    oneOf(
      suspensionModes,
      '`stop` (default): stop the container. `network`: keep it running, but cut off its network.',
    ),
  ),
  until: Type.Optional(
    Type.String({
      ...trimmed,
      ...numeric,
      maxLength: 64,
      description:
        'Automatic end of the suspension: YYYY-MM-DD HH:MM[:SS], RFC 3339, a date (the end of that day) or Unix seconds. If omitted, the suspension lasts until it is lifted.',
    }),
  ),
}

const SuspendBodySchema = Type.Object(suspensionFields, { title: 'Suspension' })
export type SuspensionBody = Static<typeof SuspendBodySchema>

export interface SuspensionParts {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

const common = {
  method: 'POST',
  scope: suspendScope,
  bound: 'refused',
  tag: 'Containers',
  params: ContainerPathSchema,
  conditional: true,
  errors: ['invalid_state', 'host_offline', 'agent_timeout'],
} as const

/** Routes that suspend containers. They are closed to callers that are restricted to some containers. */
export function suspensionRoutes(parts: SuspensionParts): Route[] {
  return [
    route({
      ...common,
      path: '/containers/{id}/suspend',
      name: 'suspendContainer',
      audit: 'container.suspend',
      summary:
        'Suspends a container. Until the suspension is lifted, nobody can start, restart, reinstall or restore the container, change its boot medium, reset its password or open its console (403 `policy_blocked`). A repeated request replaces the suspension',
      body: SuspendBodySchema,
      example: { reason: 'invoice 2042 is overdue', message: 'Please pay invoice 2042.', mode: 'stop' },
      handle: async (context) => {
        const change = planSuspension(context.body, parts.time)
        await changeSuspension(parts.fleet, context, change)
        return { message: 'container suspended' }
      },
    }),
    route({
      ...common,
      path: '/containers/{id}/unsuspend',
      name: 'unsuspendContainer',
      audit: 'container.unsuspend',
      summary:
        'Lifts a suspension. A container that the suspension stopped is started again. Other reasons that block the container stay in effect',
      handle: async (context) => {
        const change = planUnsuspension()
        const { suspension } = await changeSuspension(parts.fleet, context, change)
        return { message: suspension ? 'container unsuspended' : 'the container was not suspended' }
      },
    }),
  ]
}

/** @throws {BerthError} `invalid_field` */
export function planSuspension(
  { reason, message = '', mode = 'stop', until = '' }: SuspensionBody,
  time: TimeFormat,
): SettingOrder {
  if (reason === '') throw invalidField('reason', 'reason: must not be empty')
  const untilMs = time.parseField('until', until)
  const value = { reason, message, mode, untilMs }
  // The reason is omitted, because customers may read the audit log of their container.
  const detail = `mode ${mode}, until ${time.format(untilMs) || 'it is lifted'}`
  return { change: { $case: 'suspend', value }, detail }
}

export function planUnsuspension(): SettingOrder {
  return { change: { $case: 'unsuspend', value: {} }, detail: 'suspension lifted' }
}

type Context = Pick<RequestContext<{ id: string }, unknown, unknown>, 'headers' | 'audit' | 'operationId'> & {
  readonly params: { readonly id: string }
}

/** @returns the guest before the change */
async function changeSuspension(
  fleet: Fleet,
  { headers, audit, operationId, params }: Context,
  change: SettingOrder,
): Promise<GuestView['guest']> {
  const found = findAudited(fleet, { params, audit })
  await changeSetting(fleet, { headers, audit, operationId, guest: found }, change)
  return found.guest
}

/** @throws {BerthError} `insufficient_scope` if the caller is restricted to some containers */
export function refuseBoundCaller(caller: Principal): void {
  if (isBound(caller))
    throw new BerthError('forbidden', 'insufficient_scope', 'not available for callers that are bound to containers')
}

/**
 * Prevents customers from restoring a backup of a suspended container onto another container.
 * @throws {BerthError} `policy_blocked`
 */
export function refuseSuspendedSource(view: FleetView, caller: Principal, uuid: string): void {
  const guest = view.findGuest(uuid)?.guest
  if (guest?.suspension && isBound(caller))
    throw new BerthError(
      'forbidden',
      'policy_blocked',
      'the backup cannot be restored: the container from which it was made is suspended',
    )
}
