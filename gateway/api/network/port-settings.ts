import { Type, type Static } from 'typebox'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'

const uniquePorts = Type.Boolean({
  description:
    '`true`: a host port, given by its number and protocol, belongs to at most one container of the fleet, so that containers keep their ports when they move. `false` (default): containers on different hosts may have the same port.',
})
const BodySchema = Type.Object({ unique_ports: uniquePorts })
const PortSchema = Type.Integer()
const PortSettingsSchema = Type.Object(
  {
    unique_ports: uniquePorts,
    duplicate_ports: Type.Integer({
      description:
        'Number of host ports that belong to more than one container. Setting `unique_ports` to `true` does not change these ports.',
    }),
    common_port_range: Type.Union([Type.Object({ start: PortSchema, end: PortSchema }), Type.Null()], {
      description:
        'Range of host ports that all hosts permit. Automatic ports are chosen from it. `null`: there is no such range.',
    }),
  },
  { title: 'PortSettings' },
)

export function portSettingRoutes({ ports }: Pick<Fleet, 'ports'>): Route[] {
  const common = {
    path: '/port-settings',
    scope: 'admin:access',
    bound: 'refused',
    tag: 'Settings',
    data: PortSettingsSchema,
  } as const
  const row = (isUnique: boolean): Static<typeof PortSettingsSchema> => ({
    unique_ports: isUnique,
    duplicate_ports: ports.countDuplicates(),
    common_port_range: ports.commonRange ?? null,
  })
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getPortSettings',
      summary: 'Returns whether host ports are unique in the fleet',
      handle: () => ({ data: row(ports.unique.current) }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updatePortSettings',
      audit: 'port_settings.update',
      summary: 'Sets whether host ports are unique in the fleet. Existing mappings stay as they are',
      body: BodySchema,
      example: { unique_ports: true },
      handle: async (context) => {
        const { unique_ports: wanted } = context.body
        context.audit({ detail: `unique_ports ${wanted}` })
        return { message: 'port settings updated', data: row(await ports.unique.update(() => wanted)) }
      },
    }),
  ]
}
