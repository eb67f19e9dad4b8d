import { Type, type Static } from 'typebox'
import { TrafficLimit } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { GetTrafficResponse } from '../../../proto/gen/berth/agent/v1/network.js'
import { clampTime, createTimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { TrafficActionSchema, TrafficModeSchema, trafficActionName, trafficModeName } from '../guests/guest-row.js'
import { planTraffic } from '../guests/plan-settings.js'
import { route, type Route } from '../../http/route.js'
import { localTimeSchema } from '../../http/schema.js'
import { trafficFields } from '../guests/setting-schemas.js'
import {
  changeSetting,
  describeFields,
  leaveSetting,
  nothingToChange,
  updatedAnswer,
  UpdatedSchema,
} from '../guests/guest-settings.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { usedPercent } from './used-percent.js'

const quota = (traffic: string, mode: string) =>
  Type.Number({
    description: `Quota for ${traffic} per period, in GB (10^9 bytes). Used in \`${mode}\` mode. 0: unlimited.`,
  })
const bytes = (description: string) => Type.Integer({ minimum: 0, description })

const TrafficSchema = Type.Object(
  {
    mode: TrafficModeSchema,
    limit_gb: quota('received and sent traffic together', 'total'),
    in_limit_gb: quota('received traffic', 'split'),
    out_limit_gb: quota('sent traffic', 'split'),
    total_used_bytes: bytes(
      'Traffic of the container in the current period: bytes of IP packets, with their headers, that left the host or came from outside. TCP segments that the host hands to the network card in one piece count with only one header, so the value can be about 3.5 % lower than the traffic on the wire. The value is up to 9 s old if no container of the host has a quota, else up to 3 s (`traffic.interval_seconds` in `agent.yaml`).',
    ),
    rx_used_bytes: bytes('Bytes that the container received in the current period.'),
    tx_used_bytes: bytes('Bytes that the container sent in the current period.'),
    used_pct: Type.Number({
      minimum: 0,
      description:
        'Percentage of the quota that is used. In `split` mode: the higher percentage of both directions. Always 0 if the container has no quota.',
    }),
    reset_date: Type.String({
      pattern: '^(\\d{4}-\\d{2})?$',
      description: 'Month (`YYYY-MM`) in which the current traffic period began.',
    }),
    period_start: Type.String({
      pattern: '^(\\d{4}-\\d{2}-\\d{2})?$',
      description: 'Day on which the current traffic period began, in the time zone of the host.',
    }),
    resets_at: localTimeSchema('End of the current traffic period, in the time zone of the host.'),
    utc_offset: Type.String({
      pattern: '^[+-]\\d{2}:\\d{2}$',
      description: 'UTC offset of the time zone of the host at `resets_at`.',
    }),
    action: TrafficActionSchema,
  },
  { title: 'Traffic' },
)
type TrafficRow = Static<typeof TrafficSchema>

const TrafficBodySchema = Type.Object(trafficFields)
const errors = ['host_offline', 'agent_timeout']
const common = { bound: 'guest', tag: 'Traffic', params: ContainerPathSchema } as const
const conditional = {
  ...common,
  scope: 'container:traffic',
  conditional: true,
  errors: ['invalid_state', 'precondition_failed', ...errors],
} as const

const utc = createTimeFormat('UTC')

export function trafficRoutes(fleet: Fleet): Route[] {
  return [readRoute(fleet), ...changeRoutes(fleet)]
}

function readRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'GET',
    path: '/containers/{id}/traffic',
    name: 'getTraffic',
    subUser: 'allowed',
    scope: 'container:read',
    summary: 'Returns the traffic of a container in the current traffic period',
    data: TrafficSchema,
    errors,
    handle: async ({ guest: { hostId, guest } }) => {
      const { uuid } = guest
      return { data: trafficRow(await fleet.agent(hostId).settings.getTraffic({ uuid })) }
    },
  })
}

function changeRoutes(fleet: Fleet): Route[] {
  return [
    route({
      ...conditional,
      method: 'POST',
      path: '/containers/{id}/traffic-reset',
      name: 'resetTraffic',
      subUser: 'refused',
      audit: 'container.traffic_reset',
      summary:
        'Resets the traffic counters of the current period. A container that was blocked by its quota can be started again',
      handle: async (context) => {
        const change = { $case: 'resetTraffic', value: {} } as const
        await changeSetting(fleet, context, { change, detail: 'counters set to zero' })
        return { message: 'traffic reset' }
      },
    }),
    route({
      ...conditional,
      method: 'PUT',
      path: '/containers/{id}/traffic-limit',
      name: 'updateTrafficLimit',
      subUser: 'refused',
      audit: 'container.traffic_limit',
      summary: 'Changes the monthly traffic quota of a container. Omitted fields stay unchanged',
      body: TrafficBodySchema,
      example: { traffic_mode: 'total', monthly_traffic_gb: 1000, traffic_action: 'throttle' },
      data: UpdatedSchema,
      handle: async (context) => {
        const { body } = context
        const wanted = planTraffic(body)
        const sent = pickSent(body)
        if (Object.keys(sent).length === 0) {
          await leaveSetting(fleet, context)
          return updatedAnswer(nothingToChange, body, TrafficBodySchema)
        }
        const change = { $case: 'trafficLimit', value: wanted } as const
        await changeSetting(fleet, context, { change, detail: describeFields(sent) })
        return updatedAnswer('traffic limit updated', body, TrafficBodySchema)
      },
    }),
  ]
}

/** Selects the documented fields of a body. */
function pickSent(body: Static<typeof TrafficBodySchema>): object {
  return Object.fromEntries(Object.entries(body).filter(([field]) => Object.hasOwn(trafficFields, field)))
}

function trafficRow(traffic: GetTrafficResponse): TrafficRow {
  const limit = traffic.limit ?? TrafficLimit.create()
  const { rxBytes, txBytes, periodStart } = traffic
  // Limits the value of an agent to the range of real time zones.
  const offsetMinutes = Math.min(Math.max(traffic.utcOffsetMinutes, -14 * 60), 14 * 60)
  return {
    mode: trafficModeName(limit.mode),
    limit_gb: limit.monthlyGb,
    in_limit_gb: limit.inGb,
    out_limit_gb: limit.outGb,
    total_used_bytes: rxBytes + txBytes,
    rx_used_bytes: rxBytes,
    tx_used_bytes: txBytes,
    used_pct: usedPercent(limit, rxBytes, txBytes),
    reset_date: periodStart.slice(0, 7),
    period_start: periodStart,
    resets_at: localTime(traffic.resetsAtMs, offsetMinutes),
    utc_offset: offsetText(offsetMinutes),
    action: trafficActionName(limit.action),
  }
}

function localTime(ms: number, offsetMinutes: number): string {
  const known = clampTime(ms)
  return utc.format(known === 0 ? 0 : known + offsetMinutes * 60_000)
}

function offsetText(minutes: number): string {
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0')
  const distance = Math.abs(minutes)
  return `${minutes < 0 ? '-' : '+'}${two(distance / 60)}:${two(distance % 60)}`
}
