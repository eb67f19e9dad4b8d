import { Type, type Static } from 'typebox'
import { TrafficLimit } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { GuestUsage } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isBound, mayFind, type Principal } from '../../access/principal.js'
import { invalidField } from '../../../shared/errors.js'
import type { Fleet, FleetView, GuestView } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { GuestUsages } from '../../usage/guest-usages.js'
import { boundGuests } from '../guests/visible.js'
import { usedPercent } from '../network/used-percent.js'

/** Maximum number of containers in an answer. */
const most = 100
const figure = (description: string) =>
  Type.Union([Type.Number({ minimum: 0 }), Type.Null()], { description: `${description} \`null\`: not known.` })

const UsageRowSchema = Type.Object(
  {
    id: Type.Integer(),
    uuid: Type.String(),
    name: Type.String(),
    cpu_usage_pct: figure('Usage in percent of all virtual CPUs together.'),
    memory_usage_bytes: figure('Used memory in bytes.'),
    disk_usage_bytes: figure('Disk space in bytes that counts towards the disk size.'),
    traffic_used_bytes: figure('Traffic in the current traffic period, received and sent.'),
    traffic_used_pct: figure('Percentage of the traffic quota that is used. 0 if there is no quota.'),
  },
  { title: 'ListedUsage' },
)
type UsageRow = Static<typeof UsageRowSchema>

const QuerySchema = Type.Object({
  containers: Type.Optional(
    Type.String({
      maxLength: 4000,
      description: `Numeric ids or UUIDs of at most ${most} containers, separated by commas. Unknown containers are ignored.`,
    }),
  ),
  busiest: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: most,
      description: 'Number of containers to return, those with the highest CPU usage first. Default: 10.',
    }),
  ),
})

export function guestUsageRoute(fleet: Fleet): Route {
  const usages = new GuestUsages(fleet)
  return route({
    method: 'GET',
    path: '/container-usage',
    name: 'listContainerUsage',
    subUser: 'allowed',
    scope: 'container:read',
    bound: 'own',
    tag: 'Containers',
    summary:
      'Returns the last measured resource usage of several containers: those in `containers`, otherwise the busiest ones',
    query: QuerySchema,
    data: Type.Array(UsageRowSchema),
    handle: async ({ caller, query: { containers, busiest = 10 } }) => {
      if (containers !== undefined) return { data: await rowsOf(usages, findNamed(fleet.view, caller, containers)) }
      const all = isBound(caller) ? boundGuests(fleet.view, caller) : [...fleet.view.guests()]
      return { data: await readBusiest(usages, all, busiest) }
    },
  })
}

/** @throws {BerthError} `invalid_field` */
function findNamed(view: FleetView, caller: Principal, text: string): GuestView[] {
  const refs = new Set(text.split(',').filter(Boolean))
  if (refs.size > most) throw invalidField('containers', `containers: must name at most ${most} containers`)
  const found = [...refs].flatMap((ref) => view.findGuest(ref) ?? [])
  return found.filter((guest) => mayFind(caller, guest))
}

type Reader = (hostId: string, uuid: string) => GuestUsage | undefined

function readFor(usages: GuestUsages, guests: readonly GuestView[]): Promise<Reader> {
  return usages.read(new Set(guests.map(({ hostId }) => hostId)))
}

async function rowsOf(usages: GuestUsages, guests: readonly GuestView[]): Promise<UsageRow[]> {
  const usageOf = await readFor(usages, guests)
  return guests.map((view) => usageRow(view, usageOf(view.hostId, view.guest.uuid)))
}

async function readBusiest(usages: GuestUsages, guests: readonly GuestView[], busiest: number): Promise<UsageRow[]> {
  const usageOf = await readFor(usages, guests)
  const used = guests.flatMap((view) => {
    const usage = usageOf(view.hostId, view.guest.uuid)
    return usage?.cpuUsagePct === undefined ? [] : [{ view, usage, cpu: usage.cpuUsagePct }]
  })
  used.sort((a, b) => b.cpu - a.cpu || a.view.guest.id - b.view.guest.id)
  return used.slice(0, busiest).map(({ view, usage }) => usageRow(view, usage))
}

const noQuota = TrafficLimit.create()

function usageRow({ guest }: GuestView, usage: GuestUsage | undefined): UsageRow {
  const { id, uuid, name, traffic = noQuota } = guest
  return {
    id,
    uuid,
    name,
    cpu_usage_pct: rounded(usage?.cpuUsagePct),
    memory_usage_bytes: usage?.memoryUsageBytes ?? null,
    disk_usage_bytes: usage?.diskUsageBytes ?? null,
    ...trafficFigures(traffic, usage),
  }
}

function trafficFigures(limit: TrafficLimit, usage: GuestUsage | undefined) {
  if (!usage) return { traffic_used_bytes: null, traffic_used_pct: null }
  const { trafficRxBytes: rx, trafficTxBytes: tx } = usage
  return { traffic_used_bytes: rx + tx, traffic_used_pct: usedPercent(limit, rx, tx) }
}

function rounded(value: number | undefined): number | null {
  return value === undefined || !Number.isFinite(value) ? null : Math.round(Math.max(0, value) * 10) / 10
}
