import { Type, type Static } from 'typebox'
import { limits } from '../../../shared/guest-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { planRates } from './plan-settings.js'
import { route, type Route } from '../../http/route.js'
import { ExpirySchema, rateFields, vcpuField, within } from './setting-schemas.js'
import { changeSetting, describeFields } from './settings.js'
import { ContainerPathSchema } from './containers.js'

const LimitsBodySchema = Type.Object({ vcpu: vcpuField, ram_mb: within(limits.ramMb), ...rateFields })
type LimitsBody = Static<typeof LimitsBodySchema>
const ExpiryBodySchema = Type.Object({ expires_at: ExpirySchema })

const common = {
  method: 'PUT',
  scope: 'container:resize',
  bound: 'guest',
  tag: 'Containers',
  params: ContainerPathSchema,
  conditional: true,
} as const

/** Sizes, rates and the end of a container's time. */
export function limitRoutes({ fleet, time }: { fleet: Fleet; time: TimeFormat }): Route[] {
  return [
    route({
      ...common,
      path: '/containers/{id}/resource-limit',
      audit: 'container.resource_limit',
      summary: 'Changes the limits sent, at once; the others stay',
      body: LimitsBodySchema,
      errors: [
        ...['resource_exhausted', 'memory_in_use', 'task_running', 'invalid_state', 'precondition_failed'],
        ...['host_offline', 'agent_timeout'],
      ],
      handle: async (context) => {
        const wanted = planLimits(context.body)
        await changeSetting(fleet, context, describeFields(wanted), (settings, target) =>
          settings.setLimits({ ...target, ...wanted }),
        )
        return { message: 'limits updated' }
      },
    }),
    route({
      ...common,
      path: '/containers/{id}/expiry',
      audit: 'container.expiry',
      summary: 'When the container is stopped and blocked; it is never deleted',
      body: ExpiryBodySchema,
      errors: ['invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
      handle: async (context) => {
        const expiresAtMs = time.parseField('expires_at', context.body.expires_at)
        const detail = `expires ${time.format(expiresAtMs) || 'never'}`
        await changeSetting(fleet, context, detail, (settings, target) =>
          settings.setExpiry({ ...target, expiresAtMs }),
        )
        return { message: 'expiry updated' }
      },
    }),
  ]
}

function planLimits(body: LimitsBody) {
  const vcpuMilli = body.vcpu === undefined ? undefined : Math.round(body.vcpu * 1000)
  return { vcpuMilli, ramMb: body.ram_mb, ...planRates(body) }
}
