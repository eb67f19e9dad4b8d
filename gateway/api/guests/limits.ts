import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { limits } from '../../../shared/guest-rules.js'
import { planRates } from './plan-settings.js'
import { route, type Route } from '../../http/route.js'
import { zeroIsAbsent } from '../../http/normalize.js'
import { ExpirySchema, ramBounds, rateFields, vcpuBounds } from './setting-schemas.js'
import {
  changeSetting,
  describeFields,
  leaveSetting,
  nothingToChange,
  updatedAnswer,
  UpdatedSchema,
} from './guest-settings.js'
import { ContainerPathSchema } from './containers.js'

const LimitsBodySchema = Type.Object(
  {
    vcpu: Type.Optional(
      Type.Number({
        ...vcpuBounds,
        ...zeroIsAbsent,
        description: 'Number of virtual CPUs. If omitted or 0, it is unchanged.',
      }),
    ),
    ram_mb: Type.Optional(
      Type.Integer({
        ...ramBounds,
        ...zeroIsAbsent,
        description: 'Memory in MiB. If omitted or 0, it is unchanged.',
      }),
    ),
    disk_gb: Type.Optional(
      Type.Integer({
        minimum: limits.diskGb.min,
        maximum: limits.diskGb.max,
        ...zeroIsAbsent,
        description:
          'Disk size in GiB. It can only grow, also while the container is running. If omitted or 0, it is unchanged.',
      }),
    ),
    ...rateFields,
  },
  { title: 'ResourceLimit' },
)
type LimitsBody = Static<typeof LimitsBodySchema>
const ExpiryBodySchema = Type.Object({ expires_at: { ...ExpirySchema, trim: false } })

const common = {
  method: 'PUT',
  scope: 'container:resize',
  bound: 'guest',
  tag: 'Containers',
  params: ContainerPathSchema,
  conditional: true,
} as const

export function limitRoutes({ fleet, time }: { fleet: Fleet; time: TimeFormat }): Route[] {
  return [
    route({
      ...common,
      path: '/containers/{id}/resource-limit',
      name: 'updateResourceLimit',
      subUser: 'refused',
      audit: 'container.resource_limit',
      summary: 'Changes the resource limits of a container immediately. Omitted limits stay unchanged',
      body: LimitsBodySchema,
      example: { vcpu: 2, ram_mb: 1024, disk_gb: 20, network_down_mbps: 100, network_up_mbps: 50 },
      data: UpdatedSchema,
      errors: [
        'resource_exhausted',
        'disk_shrink',
        'memory_in_use',
        'task_running',
        'invalid_state',
        'precondition_failed',
        'host_offline',
        'agent_timeout',
      ],
      handle: async (context) => {
        const { body } = context
        const wanted = planLimits(body)
        if (Object.values(wanted).every((value) => value === undefined)) {
          await leaveSetting(fleet, context)
          return updatedAnswer(nothingToChange, body, LimitsBodySchema)
        }
        const change = { $case: 'limits', value: wanted } as const
        const { guest } = await changeSetting(fleet, context, { change, detail: describeFields(wanted) })
        const later = guest.atNextStart.includes('limits') ? '; some limits take effect at the next start' : ''
        return updatedAnswer(`limits updated${later}`, body, LimitsBodySchema)
      },
    }),
    route({
      ...common,
      path: '/containers/{id}/expiry',
      name: 'setExpiry',
      subUser: 'refused',
      audit: 'container.expiry',
      summary: 'Sets when the container expires. An expired container is stopped and blocked, but never deleted',
      body: ExpiryBodySchema,
      example: { expires_at: '2030-12-31 23:59:59' },
      errors: ['invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
      handle: async (context) => {
        // Empty text means no expiry. Text of only spaces is invalid, so that it cannot remove an expiry by mistake.
        const text = context.body.expires_at
        const expiresAtMs = time.parseField('expires_at', text.trim() || text)
        const detail = `expires ${time.format(expiresAtMs) || 'never'}`
        const change = { $case: 'expiresAtMs', value: expiresAtMs } as const
        await changeSetting(fleet, context, { change, detail })
        return { message: 'expiry updated' }
      },
    }),
  ]
}

function planLimits(body: LimitsBody) {
  const vcpuMilli = body.vcpu === undefined ? undefined : Math.round(body.vcpu * 1000)
  return { vcpuMilli, ramMb: body.ram_mb, diskGb: body.disk_gb, ...planRates(body) }
}
