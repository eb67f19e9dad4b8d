import { Type, type Static } from 'typebox'
import { smtpChoices } from '../../../shared/abuse.js'
import { BerthError } from '../../../shared/errors.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isBound } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { changeSetting, describeFields, leaveSetting, nothingToChange } from '../guests/guest-settings.js'

const fields = {
  auto_shutdown_exempt: Type.Boolean({
    description: '`true`: the container is never stopped because of alerts.',
  }),
  smtp: oneOf(
    smtpChoices,
    'Outgoing connections to port 25. `open`: allowed, as for a mail server; the thresholds of spam alerts are ten times as high. `closed`: blocked. `default`: as configured for the host.',
  ),
}
const RowSchema = Type.Object(fields, { title: 'ContainerSecurity' })
const BodySchema = Type.Object(
  { auto_shutdown_exempt: Type.Optional(fields.auto_shutdown_exempt), smtp: Type.Optional(fields.smtp) },
  { title: 'ChangeContainerSecurity' },
)

const common = {
  path: '/containers/{id}/security',
  bound: 'guest',
  subUser: 'refused',
  tag: 'Security',
  params: ContainerPathSchema,
} as const

export function guestSecurityRoutes(fleet: Fleet): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getContainerSecurity',
      scope: 'security:read',
      summary: 'Returns how Berth reacts to alerts about a container',
      data: RowSchema,
      handle: ({ guest }) => ({ data: securityRow(guest.guest) }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateContainerSecurity',
      scope: 'security:settings',
      audit: 'container.security',
      summary:
        'Changes how Berth reacts to alerts about a container. Omitted fields stay unchanged. Not available for keys that are bound to containers',
      conditional: true,
      body: BodySchema,
      example: { auto_shutdown_exempt: false, smtp: 'open' },
      data: RowSchema,
      errors: ['insufficient_scope', 'invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
      handle: async (context) => {
        const { auto_shutdown_exempt: exempt, smtp } = context.body
        if (isBound(context.caller))
          throw new BerthError(
            'forbidden',
            'insufficient_scope',
            'not available for callers that are bound to containers',
          )
        if (exempt === undefined && smtp === undefined) {
          await leaveSetting(fleet, context)
          return { message: nothingToChange, data: securityRow(context.guest.guest) }
        }
        const change = { $case: 'security', value: { exempt, smtp } } as const
        const detail = describeFields({ auto_shutdown_exempt: exempt, smtp })
        const { guest } = await changeSetting(fleet, context, { change, detail })
        return { message: 'security updated', data: securityRow(guest) }
      },
    }),
  ]
}

function securityRow({ security }: Guest): Static<typeof RowSchema> {
  const smtp = smtpChoices.find((choice) => choice === security?.smtp) ?? 'default'
  return { auto_shutdown_exempt: security?.exempt ?? false, smtp }
}
