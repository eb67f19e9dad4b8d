import { Type, type Static } from 'typebox'
import { addAllocation, noAllocation, type Allocation } from '../../../shared/allocation.js'
import { Capacity } from '../../../proto/gen/berth/agent/v1/host.js'
import type { Fleet, HostView } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import type { GuestTrend } from '../../usage/guest-trend.js'
import { HostTrends, type HostTrend } from '../../usage/host-trends.js'
import { trendDays } from '../../usage/plan-guest-trend.js'
import { planFits, sparkline } from '../../usage/plan-usage.js'

const count = Type.Integer({ minimum: 0 })
const known = (description: string) => Type.Union([Type.Number({ minimum: 0 }), Type.Null()], { description })

const PoolSchema = Type.Object({ used: count, total: count }, { title: 'PoolFill' })

const HostUsageSchema = Type.Object(
  {
    host_id: Type.String(),
    cpu_usage_pct: known('Processor usage in percent. `null`: not known, for example because the host is offline.'),
    ram_used_mb: known('Used memory in MiB. `null`: not known.'),
    disk_used_gb: known('Used space of the storage pool in GB. `null`: not known.'),
    cpu_cores: count,
    ram_total_mb: count,
    disk_total_gb: count,
    vcpu_allocated: Type.Number({ minimum: 0, description: 'Virtual CPUs of all containers of the host.' }),
    ram_allocated_mb: count,
    disk_allocated_gb: count,
    cpu_history: Type.Array(Type.Union([Type.Number({ minimum: 0 }), Type.Null()]), {
      description: `Processor usage of the last 24 hours in ${sparkline.points} equal steps, oldest first. \`null\`: not known. The list is empty if nothing is known yet. It can be 10 minutes old.`,
    }),
    disk_full_in_days: known(
      'Days until the storage pool is full if its usage grows as in the last month. `null`: the usage does not grow, or there is too little history.',
    ),
    ports: Type.Union([PoolSchema, Type.Null()], { description: 'Host ports for containers. `null`: not known.' }),
    public_ipv4: Type.Union([PoolSchema, Type.Null()], {
      description: 'Public IPv4 addresses for containers. It can be 10 minutes old. `null`: not known.',
    }),
  },
  { title: 'FleetHostUsage' },
)

const SizeSchema = Type.Object(
  {
    vcpu: Type.Number(),
    ram_mb: count,
    disk_gb: count,
    containers: Type.Integer({ minimum: 0, description: 'Number of containers of this size.' }),
    fits: Type.Integer({
      minimum: 0,
      description:
        'Number of further containers of this size that the hosts accept, with the permitted overcommitment.',
    }),
  },
  { title: 'CommonSize' },
)

const GroupSchema = Type.Object(
  {
    group: Type.String({ description: 'Name of the group. Empty: hosts without a group.' }),
    hosts: count,
    cpu_cores: count,
    ram_total_mb: count,
    disk_total_gb: count,
    vcpu_allocated: Type.Number({ minimum: 0 }),
    ram_allocated_mb: count,
    disk_allocated_gb: count,
    fits: Type.Union([count, Type.Null()], {
      description:
        'Number of further containers of the most common size for which the hosts have room. `null`: there are no containers.',
    }),
  },
  { title: 'GroupCapacity' },
)

const FleetUsageSchema = Type.Object(
  {
    hosts: Type.Array(HostUsageSchema),
    groups: Type.Array(GroupSchema, { description: 'Capacity of the groups of hosts, ordered by name.' }),
    container_history: Type.Array(Type.Union([count, Type.Null()]), {
      description: `Number of containers on each of the last ${trendDays} days, oldest first. The last value is the newest recorded number. \`null\`: not known, for example because no gateway was running.`,
    }),
    common_size: Type.Union([SizeSchema, Type.Null()], {
      description: 'The most common size of containers. `null`: there are no containers.',
    }),
  },
  { title: 'FleetUsage' },
)

type FleetUsage = Static<typeof FleetUsageSchema>

export function fleetUsageRoute(fleet: Fleet, guestTrend: Pick<GuestTrend, 'read'>): Route {
  const trends = new HostTrends(fleet)
  return route({
    method: 'GET',
    path: '/fleet-usage',
    name: 'getFleetUsage',
    scope: 'host:read',
    bound: 'refused',
    tag: 'Overview',
    summary: 'Returns the capacity and usage of all hosts, and how many more containers they accept',
    data: FleetUsageSchema,
    handle: async () => {
      const hosts = fleet.view.hosts()
      const trendOf = await trends.read(hosts)
      return {
        data: {
          hosts: hosts.map((host) => hostUsage(host, fleet.view.allocationOf(host.id), trendOf(host.id))),
          groups: groupCapacities(fleet, hosts),
          container_history: guestTrend.read(),
          common_size: commonSize(fleet, hosts),
        },
      }
    },
  })
}

type HostUsage = Static<typeof HostUsageSchema>
type PresentUsage = Pick<HostUsage, 'cpu_usage_pct' | 'ram_used_mb' | 'disk_used_gb' | 'ports'>

const noCapacity = Capacity.create()

function hostUsage(host: HostView, allocated: Allocation, trend: HostTrend): HostUsage {
  const capacity = host.description?.capacity ?? noCapacity
  return {
    host_id: host.id,
    ...presentUsage(host, capacity),
    cpu_cores: capacity.cpuCores,
    ram_total_mb: capacity.ramTotalMb,
    disk_total_gb: capacity.diskTotalGb,
    vcpu_allocated: allocated.vcpuMilli / 1000,
    ram_allocated_mb: allocated.ramMb,
    disk_allocated_gb: allocated.diskGb,
    cpu_history: [...trend.cpu],
    disk_full_in_days: trend.diskFullInDays,
    public_ipv4: trend.ipv4,
  }
}

function presentUsage({ state, metrics }: HostView, { natPortsTotal }: Capacity): PresentUsage {
  if (state !== 'online' || !metrics) return { cpu_usage_pct: null, ram_used_mb: null, disk_used_gb: null, ports: null }
  return {
    cpu_usage_pct: Math.round(metrics.cpuUsagePct * 10) / 10,
    ram_used_mb: metrics.ramUsedMb,
    disk_used_gb: metrics.diskUsedGb,
    ports: { used: metrics.natPortsUsed, total: natPortsTotal },
  }
}

/** Sums the capacity of the hosts of each group. */
function groupCapacities(fleet: Fleet, hosts: readonly HostView[]): FleetUsage['groups'] {
  const names = [...new Set(hosts.map(({ group }) => group))].sort()
  return names.map((group) => {
    const own = hosts.filter((host) => host.group === group)
    const sum = (read: (capacity: Capacity) => number): number =>
      own.reduce((all, { description }) => all + read(description?.capacity ?? noCapacity), 0)
    const allocated = own
      .map(({ id }) => fleet.view.allocationOf(id))
      .reduce((all, one) => addAllocation(all, one), noAllocation)
    return {
      group,
      hosts: own.length,
      cpu_cores: sum(({ cpuCores }) => cpuCores),
      ram_total_mb: sum(({ ramTotalMb }) => ramTotalMb),
      disk_total_gb: sum(({ diskTotalGb }) => diskTotalGb),
      vcpu_allocated: allocated.vcpuMilli / 1000,
      ram_allocated_mb: allocated.ramMb,
      disk_allocated_gb: allocated.diskGb,
      fits: commonSize(fleet, own)?.fits ?? null,
    }
  })
}

function commonSize({ view, overcommit: ratios }: Fleet, hosts: readonly HostView[]): FleetUsage['common_size'] {
  const common = view.commonSize()
  if (!common) return null
  const { limits, guests } = common
  const fits = hosts
    .filter(({ state, draining }) => state === 'online' && !draining)
    .map((host) => {
      const room = { allocated: view.allocationOf(host.id), capacity: host.description?.capacity, ratios }
      return planFits(room, limits)
    })
  return {
    vcpu: limits.vcpuMilli / 1000,
    ram_mb: limits.ramMb,
    disk_gb: limits.diskGb,
    containers: guests,
    fits: fits.reduce((sum, one) => sum + one, 0),
  }
}
