import { Type, type Static } from 'typebox'
import { guestDevices, parseGuestDevices } from '../../../shared/guest-devices.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isBound } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { ContainerPathSchema } from './containers.js'
import { adminScope, checkMayAllowDevices, DevicesSchema } from './device-schema.js'
import { changeSetting } from './guest-settings.js'

const BodySchema = Type.Object({ devices: DevicesSchema }, { title: 'ChangeContainerDevices' })
const RowSchema = Type.Object(
  {
    devices: DevicesSchema,
    restart_required: Type.Boolean({
      description:
        '`true`: the change takes effect at the next start of the container. `false`: the change is already in effect.',
    }),
  },
  { title: 'ContainerDevices' },
)

export function deviceRoutes(fleet: Fleet): Route[] {
  return [
    route({
      method: 'PUT',
      path: '/containers/{id}/devices',
      name: 'updateContainerDevices',
      scope: adminScope,
      bound: 'guest',
      subUser: 'refused',
      audit: 'container.devices',
      tag: 'Containers',
      summary: 'Sets the devices of the host that a container can use from its next start. Only for administrators',
      params: ContainerPathSchema,
      body: BodySchema,
      example: { devices: ['tun'] },
      data: RowSchema,
      conditional: true,
      errors: [
        'insufficient_scope',
        'unsupported',
        'invalid_state',
        'precondition_failed',
        'host_offline',
        'agent_timeout',
      ],
      handle: async (context) => {
        const names = parseGuestDevices(context.body.devices)
        if (isBound(context.caller)) checkMayAllowDevices(context.caller, guestDevices)
        const change = { $case: 'devices', value: { names } } as const
        const { guest } = await changeSetting(fleet, context, { change, detail: names.join(', ') || 'none' })
        const data = devicesRow(guest)
        return {
          message: data.restart_required ? 'the devices change at the next start' : 'devices updated',
          data,
        }
      },
    }),
  ]
}

function devicesRow({ devices, atNextStart }: Guest): Static<typeof RowSchema> {
  return {
    devices: guestDevices.filter((device) => devices.includes(device)),
    restart_required: atNextStart.includes('devices'),
  }
}
