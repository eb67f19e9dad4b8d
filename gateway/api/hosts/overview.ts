import { Type, type Static } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { Capacity } from '../../../proto/gen/berth/agent/v1/host.js'
import type { Principal } from '../../access/principal.js'
import type { FleetView, HostView } from '../../fleet/contract.js'
import { AllHostsQuerySchema, HostQuerySchema, chooseHost, getNamedHost } from '../host-choice.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { kvmFields, kvmRow } from './kvm.js'
import { countVisible, visibleWarnings } from '../guests/visible.js'

const count = Type.Integer({ minimum: 0 })

const DashboardSchema = Type.Object(
  {
    running: count,
    stopped: count,
    total_containers: count,
    unknown: Type.Integer({ minimum: 0, description: 'Number of containers on offline hosts.' }),
    hosts: count,
    hosts_online: count,
  },
  { title: 'Dashboard' },
)

const HostInfoSchema = Type.Object(
  {
    host_id: Type.String(),
    online: Type.Boolean(),
    cpu: Type.Object({ cores: count, usage_pct: Type.Number() }),
    ram: Type.Object({ total_mb: count, used_mb: count, free_mb: count }),
    disk: Type.Object({ total_gb: count, used_gb: count, free_gb: count }),
    network: Type.Object({
      public_ipv4: Type.String(),
      public_ipv4_interface: Type.String(),
      public_ipv6: Type.String(),
      public_ipv6_interface: Type.String(),
    }),
    load: Type.Object({ load1: Type.Number(), load5: Type.Number(), load15: Type.Number() }),
  },
  { title: 'HostInfo' },
)

const HostReportSchema = Type.Object(
  {
    generated_at: TimeSchema,
    host_id: Type.String(),
    summary: Type.Object({ status: oneOf(['ok', 'warning', 'offline']), warnings: count }),
    warnings: Type.Array(Type.String()),
    host: Type.Object({ hostname: Type.String(), kernel: Type.String(), ...kvmFields }),
    resources: Type.Object({ cpu_cores: count, ram_total_mb: count, disk_total_gb: count }),
    network: Type.Object({ public_ipv4: Type.String(), public_ipv6: Type.String() }),
  },
  { title: 'HostReport' },
)

export function overviewRoutes({ view, time }: { view: FleetView; time: TimeFormat }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/dashboard',
      name: 'getDashboard',
      subUser: 'refused',
      scope: 'dashboard:read',
      bound: 'own',
      tag: 'Overview',
      summary: 'Returns the numbers of hosts and containers, in the fleet or on one host',
      query: AllHostsQuerySchema,
      data: DashboardSchema,
      handle: ({ caller, query }) => ({ data: dashboard(view, caller, query.host_id) }),
    }),
    route({
      method: 'GET',
      path: '/host-info',
      name: 'getHostInfo',
      subUser: 'refused',
      scope: 'host:read',
      bound: 'same',
      tag: 'Overview',
      summary: 'Returns the last reported resources of a host',
      query: HostQuerySchema,
      data: HostInfoSchema,
      errors: ['host_offline'],
      handle: ({ query }) => ({ data: hostInfo(chooseHost(view, query.host_id)) }),
    }),
    route({
      method: 'GET',
      path: '/host-report',
      name: 'getHostReport',
      subUser: 'refused',
      scope: 'host:read',
      bound: 'own',
      tag: 'Overview',
      summary: 'Returns the last report of a host about its condition',
      query: HostQuerySchema,
      data: HostReportSchema,
      errors: ['host_offline'],
      handle: ({ caller, query }) => ({
        data: hostReport(chooseHost(view, query.host_id), caller, time.format(Date.now())),
      }),
    }),
  ]
}

function dashboard(view: FleetView, caller: Principal, hostId: string | undefined): Static<typeof DashboardSchema> {
  const hosts = hostId === undefined ? view.countHosts() : countOne(getNamedHost(view, hostId))
  const { total, byStatus } = countVisible(view, caller, hostId)
  return {
    running: byStatus.get('running') ?? 0,
    stopped: byStatus.get('stopped') ?? 0,
    total_containers: total - (byStatus.get('deleted') ?? 0),
    unknown: byStatus.get('unknown') ?? 0,
    hosts: hosts.total,
    hosts_online: hosts.online,
  }
}

function countOne({ state }: HostView) {
  return { total: 1, online: state === 'online' ? 1 : 0 }
}

/** @throws {BerthError} `host_offline` if the host has never reported */
function hostInfo(host: HostView): Static<typeof HostInfoSchema> {
  const { metrics } = host
  if (metrics === undefined) throw neverReported()
  return {
    host_id: host.id,
    online: host.state === 'online',
    cpu: { cores: host.description?.capacity?.cpuCores ?? 0, usage_pct: metrics.cpuUsagePct },
    ram: {
      total_mb: metrics.ramTotalMb,
      used_mb: metrics.ramUsedMb,
      free_mb: Math.max(0, metrics.ramTotalMb - metrics.ramUsedMb),
    },
    disk: {
      total_gb: metrics.diskTotalGb,
      used_gb: metrics.diskUsedGb,
      free_gb: Math.max(0, metrics.diskTotalGb - metrics.diskUsedGb),
    },
    network: {
      public_ipv4: metrics.publicIpv4,
      public_ipv4_interface: metrics.publicIpv4Interface,
      public_ipv6: metrics.publicIpv6,
      public_ipv6_interface: metrics.publicIpv6Interface,
    },
    load: { load1: metrics.load1, load5: metrics.load5, load15: metrics.load15 },
  }
}

/** @throws {BerthError} `host_offline` if the host has never reported */
function hostReport(host: HostView, caller: Principal, now: string): Static<typeof HostReportSchema> {
  const { description, metrics } = host
  if (description === undefined) throw neverReported()
  const warnings = visibleWarnings(caller, [...host.warnings, ...(metrics?.warnings ?? [])])
  const capacity = description.capacity ?? noCapacity
  return {
    generated_at: now,
    host_id: host.id,
    summary: { status: conditionOf(host, warnings), warnings: warnings.length },
    warnings,
    host: { hostname: description.hostname, kernel: description.kernel, ...kvmRow(description) },
    resources: {
      cpu_cores: capacity.cpuCores,
      ram_total_mb: capacity.ramTotalMb,
      disk_total_gb: capacity.diskTotalGb,
    },
    network: { public_ipv4: metrics?.publicIpv4 ?? '', public_ipv6: metrics?.publicIpv6 ?? '' },
  }
}

const noCapacity = Capacity.create()

function conditionOf(host: HostView, warnings: readonly string[]): 'ok' | 'warning' | 'offline' {
  if (host.state !== 'online') return 'offline'
  return warnings.length > 0 ? 'warning' : 'ok'
}

function neverReported(): BerthError {
  return new BerthError('unavailable', 'host_offline', 'the host has sent no report yet: try again later')
}
