import { Type, type Static } from 'typebox'
import { History } from '../../../proto/gen/berth/agent/v1/history.js'
import type { TimeFormat } from '../../../shared/time.js'
import { clampTime } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { chooseHost, HostQuerySchema } from '../host-choice.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'

type Range = 'day' | 'month' | 'year'

/** By range: the length of a step in seconds, and the maximum number of steps. Agents do not send more steps. */
const steps: Readonly<Record<Range, { readonly seconds: number; readonly most: number }>> = {
  day: { seconds: 60, most: 1440 },
  month: { seconds: 3600, most: 744 },
  year: { seconds: 86_400, most: 366 },
}

const RangeSchema = Type.Optional(
  oneOf(
    ['day', 'month', 'year'],
    'Period that the values cover. `day` (default): one value per minute. `month`: one value per hour. `year`: one value per day (UTC).',
  ),
)
const figure = (unit: string) =>
  Type.Union([Type.Number({ minimum: 0 }), Type.Null()], { description: `${unit}. \`null\`: not known.` })

const PointSchema = Type.Object(
  {
    time: TimeSchema,
    timestamp: Type.Integer({ description: 'Start of the step, in seconds since 1970.' }),
    cpu_usage_pct: figure('Average CPU usage in the step, in percent from 0 to 100'),
    memory_usage_bytes: figure('Memory usage in bytes'),
    disk_usage_bytes: figure('Disk usage in bytes; for a container, the bytes that count towards its disk size'),
    network_rx_bytes_per_sec: figure('Received bytes per second'),
    network_tx_bytes_per_sec: figure('Sent bytes per second'),
    io_read_bytes_per_sec: figure('Bytes per second read from the disk'),
    io_write_bytes_per_sec: figure('Bytes per second written to the disk'),
  },
  { title: 'UsagePoint' },
)
type PointRow = Static<typeof PointSchema>

const historyFields = {
  range: oneOf(['day', 'month', 'year']),
  step_seconds: Type.Integer(),
  points: Type.Array(PointSchema, {
    description:
      'One point per step, oldest first. The first point is the oldest step with a known value. In later steps, values that are not known are `null`.',
  }),
}
const ContainerHistorySchema = Type.Object(historyFields, { title: 'ContainerHistory' })
const HostHistorySchema = Type.Object({ host_id: Type.String(), ...historyFields }, { title: 'HostHistory' })

export interface HistoryDeps {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

export function historyRoutes({ fleet, time }: HistoryDeps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/containers/{id}/history',
      name: 'getContainerHistory',
      subUser: 'allowed',
      scope: 'container:read',
      bound: 'guest',
      tag: 'Containers',
      summary: 'Returns the resource usage of a container over time',
      params: ContainerPathSchema,
      query: Type.Object({ range: RangeSchema }),
      data: ContainerHistorySchema,
      errors: ['host_offline', 'agent_timeout'],
      handle: async ({ guest: { hostId, guest }, query: { range = 'day' } }) => {
        const { guests } = fleet.agent(hostId)
        const { history } = await guests.getGuestHistory({ uuid: guest.uuid, range })
        return { data: historyRow(history, range, time) }
      },
    }),
    route({
      method: 'GET',
      path: '/host-history',
      name: 'getHostHistory',
      subUser: 'refused',
      scope: 'host:read',
      bound: 'same',
      tag: 'Overview',
      summary: 'Returns the resource usage of a host over time',
      query: Type.Object({ ...HostQuerySchema.properties, range: RangeSchema }),
      data: HostHistorySchema,
      errors: ['host_offline', 'agent_timeout'],
      handle: async ({ query: { host_id: hostId, range = 'day' } }) => {
        const { id } = chooseHost(fleet.view, hostId)
        const { history } = await fleet.agent(id).hosts.getHostHistory({ range })
        return { data: { host_id: id, ...historyRow(history, range, time) } }
      },
    }),
  ]
}

function historyRow(history: History | undefined, range: Range, time: TimeFormat) {
  const { seconds, most } = steps[range]
  const { startMs, cpuUsagePct, ...columns } = history ?? History.create()
  const points = cpuUsagePct.slice(0, most).map((cpu, index): PointRow => {
    const atMs = clampTime(startMs + index * seconds * 1000)
    return {
      time: time.format(atMs),
      timestamp: Math.floor(atMs / 1000),
      cpu_usage_pct: known(cpu, 100),
      memory_usage_bytes: whole(columns.memoryBytes[index]),
      disk_usage_bytes: whole(columns.diskBytes[index]),
      network_rx_bytes_per_sec: whole(columns.networkRxRate[index]),
      network_tx_bytes_per_sec: whole(columns.networkTxRate[index]),
      io_read_bytes_per_sec: whole(columns.ioReadRate[index]),
      io_write_bytes_per_sec: whole(columns.ioWriteRate[index]),
    }
  })
  return { range, step_seconds: seconds, points }
}

/** Rounds a value that an agent sent. Returns null if the value is missing or impossible. */
function known(value: number | undefined, decimals: number): number | null {
  if (value === undefined || !Number.isFinite(value) || value < 0) return null
  return Math.round(value * decimals) / decimals
}

function whole(value: number | undefined): number | null {
  return known(value, 1)
}
