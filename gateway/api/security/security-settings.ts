import { Type, type Static } from 'typebox'
import { BerthError, notFound } from '../../../shared/errors.js'
import type { Fleet } from '../../fleet/contract.js'
import { containerRef } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { chooseHost, HostQuerySchema, OnlineHostsQuerySchema } from '../host-choice.js'
import type { SecurityDeps } from './alerts.js'

const AutoShutdownSchema = Type.Boolean({
  description:
    '`true`: a container is stopped and loses its network if the abuse behind a critical alert continues after a grace period (by default one minute). Alerts for `mining` and `proxy` never stop a container.',
})

const SettingsSchema = Type.Object(
  {
    host_id: Type.String(),
    auto_shutdown: AutoShutdownSchema,
  },
  { title: 'SecuritySettings' },
)

const ChangedSchema = Type.Object(
  {
    ...SettingsSchema.properties,
    cancelled_tasks: Type.Integer({ description: 'Number of containers whose pending stop was canceled.' }),
    cleared_blocks: Type.Integer({
      description: 'Number of containers that were blocked because of alerts and can now be started again.',
    }),
  },
  { title: 'ChangedSecuritySettings' },
)

const SettingsBodySchema = Type.Object({ auto_shutdown: AutoShutdownSchema }, { title: 'ChangeSecuritySettings' })
const CheckBodySchema = Type.Object(
  {
    container_name: Type.Optional(
      Type.String({
        ...containerRef,
        maxLength: 64,
        description: 'Id, UUID or name of the container. Default: all containers.',
      }),
    ),
  },
  { title: 'CheckSecurity' },
)
type CheckBody = Static<typeof CheckBodySchema>

const common = { tag: 'Security', query: HostQuerySchema } as const
const errors = ['host_offline', 'agent_timeout']

/** Routes that set how hosts react to alerts, and a route that checks containers for abuse. */
export function securityWriteRoutes({ fleet }: SecurityDeps): Route[] {
  return [
    route({
      ...common,
      query: OnlineHostsQuerySchema,
      method: 'POST',
      path: '/security/check',
      name: 'checkSecurity',
      scope: 'security:check',
      bound: 'refused',
      audit: 'security.check',
      summary:
        'Checks the containers for abuse immediately. A request within five seconds after a check returns the result of that check',
      body: CheckBodySchema,
      bodyOptional: true,
      example: { container_name: 'web1' },
      errors: ['not_found', ...errors],
      handle: async (context) => {
        const { guests, alerts } = await check(fleet, context.body ?? {}, context.query.host_id)
        context.audit({
          target: context.body?.container_name ?? 'all containers',
          detail: `${alerts} findings`,
        })
        return { message: `${guests} containers checked, ${alerts} findings` }
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/security/settings',
      name: 'getSecuritySettings',
      scope: 'security:read',
      bound: 'same',
      subUser: 'refused',
      summary: 'Returns how a host reacts to alerts about its containers',
      data: SettingsSchema,
      errors,
      handle: async ({ query }) => {
        const { id } = chooseHost(fleet.view, query.host_id)
        const { settings } = await fleet.agent(id).security.getSecuritySettings({})
        return { data: { host_id: id, auto_shutdown: settings?.autoShutdown ?? false } }
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: '/security/settings',
      name: 'updateSecuritySettings',
      scope: 'security:settings',
      bound: 'refused',
      audit: 'security.settings',
      summary:
        'Sets how a host reacts to alerts about its containers. When `auto_shutdown` is disabled, pending stops are canceled and blocks are lifted',
      body: SettingsBodySchema,
      example: { auto_shutdown: true },
      data: ChangedSchema,
      errors,
      handle: async (context) => {
        const { query, body } = context
        const { id } = chooseHost(fleet.view, query.host_id)
        context.audit({ target: id, detail: `auto_shutdown ${body.auto_shutdown}` })
        const settings = { autoShutdown: body.auto_shutdown }
        const done = await fleet.agent(id).security.setSecuritySettings({ settings })
        await fleet.reached(id, done.revision)
        const data = {
          host_id: id,
          auto_shutdown: done.settings?.autoShutdown ?? false,
          cancelled_tasks: done.canceledStops.length,
          cleared_blocks: done.clearedBlocks.length,
        }
        return { message: `auto_shutdown is ${data.auto_shutdown ? 'on' : 'off'}`, data }
      },
    }),
  ]
}

/**
 * Starts an abuse check of the named container, of all containers of the named host, or of all containers.
 * @throws {BerthError} `not_found`, `host_offline`
 */
async function check(
  fleet: Fleet,
  { container_name: name = '' }: CheckBody,
  hostId: string | undefined,
): Promise<{ guests: number; alerts: number }> {
  const guest = name === '' ? undefined : fleet.view.findGuest(name)
  if (name !== '' && !guest) throw notFound('container')
  const hosts = guest ? [guest.hostId] : hostsOf(fleet, hostId)
  const looked = await Promise.all(
    hosts.map(async (id) => {
      const done = await fleet.agent(id).security.checkSecurity({ uuid: guest?.guest.uuid ?? '' })
      await fleet.reached(id, done.revision)
      return done
    }),
  )
  const sum = (of: 'guests' | 'alerts'): number => looked.reduce((all, one) => all + one[of], 0)
  return { guests: guest ? 1 : sum('guests'), alerts: sum('alerts') }
}

/** Returns the requested host; undefined: all online hosts. @throws {BerthError} `host_offline` if none is online */
function hostsOf(fleet: Fleet, hostId: string | undefined): string[] {
  if (hostId !== undefined) return [chooseHost(fleet.view, hostId).id]
  const online = fleet.view.hosts().filter(({ state }) => state === 'online')
  if (online.length === 0) throw new BerthError('unavailable', 'host_offline', 'no host is reachable: try again later')
  return online.map(({ id }) => id)
}
