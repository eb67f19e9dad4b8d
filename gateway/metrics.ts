import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { HostMetrics as AgentMetrics } from '../proto/gen/berth/agent/v1/host.js'
import type { FleetView } from './fleet/contract.js'
import { addMoveGauges } from './fleet/moves/move-metrics.js'
import type { StoreHealth } from './access/contract.js'
import { addEventMetrics } from './events/event-metrics.js'
import type { EventHub } from './events/hub.js'
import { addBalancingCounter } from './balancing/balancing-metrics.js'
import type { Balancing } from './balancing/balancing.js'
import { addDrainGauge } from './drains/drain-metrics.js'
import type { Drains } from './drains/drains.js'
import { addMaintenanceGauge } from './maintenance/maintenance-metrics.js'
import type { Maintenance } from './maintenance/maintenance.js'
import { addGatewayGauge } from './gateways/gateway-metrics.js'
import type { Gateways } from './gateways/gateways.js'
import { addRotationGauges, type RotationSource } from './rotation/rotation-metrics.js'
import { addStoreMetrics, type StoreMetricSources } from './store-metrics.js'

export interface HttpMetrics {
  observe(route: string, method: string, status: number, seconds: number): void
}

export interface Metrics extends HttpMetrics {
  /** Returns all metrics in the text format of Prometheus. */
  render(): Promise<string>
  readonly contentType: string
}

/** Interval in ms at which a timer runs. The metric of the event loop's delay is the time between two runs. */
const lagLookMs = 100

interface CertificateSource {
  /** Validity of the API certificate, in ms since 1970; undefined: no certificate is in use. */
  readonly validity: { readonly notBeforeMs: number; readonly notAfterMs: number } | undefined
}

export interface MetricsSources extends StoreMetricSources {
  readonly view: FleetView
  readonly health: StoreHealth
  readonly tls: CertificateSource
  readonly gateways: Pick<Gateways, 'list'>
  readonly drains: Pick<Drains, 'all'>
  readonly balancing: Pick<Balancing, 'results'>
  readonly events: Pick<EventHub, 'listeners' | 'resets'>
  readonly maintenance: Pick<Maintenance, 'all'>
  readonly rotation: RotationSource
}

/** Metrics of the gateway, and the last reported metrics of all agents. */
export function createMetrics(options: MetricsSources): Metrics {
  const { view, health, tls, gateways, drains, balancing, events, maintenance, rotation, ...sources } = options
  const registry = new Registry()
  collectDefaultMetrics({
    register: registry,
    prefix: 'berth_gateway_',
    eventLoopMonitoringPrecision: lagLookMs,
  })
  addFleetGauges(registry, view)
  addStoreGauge(registry, health)
  addStoreMetrics(registry, sources)
  addGatewayGauge(registry, gateways)
  addDrainGauge(registry, drains)
  addBalancingCounter(registry, balancing)
  addEventMetrics(registry, events)
  addMaintenanceGauge(registry, maintenance)
  addRotationGauges(registry, rotation)
  addCertificateGauge(registry, { name: 'start', help: 'Start', read: () => tls.validity?.notBeforeMs })
  addCertificateGauge(registry, { name: 'end', help: 'End', read: () => tls.validity?.notAfterMs })
  return {
    observe: createObserver(registry),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

function createObserver(registry: Registry): HttpMetrics['observe'] {
  const histogram = new Histogram({
    name: 'berth_http_request_duration_seconds',
    help: 'Seconds from reading the request line to handing the answer to the socket',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [registry],
  })
  // The series of each route are cached, because looking up labels is slow. The number of routes is limited.
  const series = new Map<string, { observe(value: number): void }>()
  return (route, method, status, seconds) => {
    const known = knownMethods.has(method) ? method : 'other'
    const key = `${known} ${route} ${status}`
    const found = series.get(key) ?? histogram.labels(known, route, String(status))
    series.set(key, found)
    found.observe(seconds)
  }
}

const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

function addStoreGauge(registry: Registry, store: StoreHealth): void {
  new Gauge({
    name: 'berth_store_up',
    help: '1 if the store answers, otherwise 0',
    registers: [registry],
    async collect() {
      this.set(
        await store.ping().then(
          () => 1,
          () => 0,
        ),
      )
    },
  })
}

interface CertificateTime {
  readonly name: 'start' | 'end'
  readonly help: string
  readonly read: () => number | undefined
}

function addCertificateGauge(registry: Registry, { name, help, read }: CertificateTime): void {
  new Gauge({
    name: `berth_tls_certificate_${name}_timestamp_seconds`,
    help: `${help} of the validity of the API certificate in seconds since 1970; absent without TLS`,
    registers: [registry],
    collect() {
      this.remove()
      const timeMs = read()
      if (timeMs !== undefined) this.set(timeMs / 1000)
    },
  })
}

function addFleetGauges(registry: Registry, view: FleetView): void {
  new Gauge({
    name: 'berth_guests',
    help: 'Guests by status; unknown while their host is offline',
    labelNames: ['status'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [status, count] of view.countGuests().byStatus) this.set({ status }, count)
    },
  })
  new Gauge({
    name: 'berth_host_up',
    help: '1 if the agent of the host is connected, otherwise 0',
    labelNames: ['host'],
    registers: [registry],
    collect() {
      this.reset()
      for (const host of view.hosts()) this.set({ host: host.id }, host.state === 'online' ? 1 : 0)
    },
  })
  new Gauge({
    name: 'berth_host_outdated',
    help: '1 if the agent of the host has another version than this gateway, otherwise 0',
    labelNames: ['host'],
    registers: [registry],
    collect() {
      this.reset()
      for (const host of view.hosts()) this.set({ host: host.id }, Number(host.outdated))
    },
  })
  addMoveGauges(registry, view)
  new Gauge({
    name: 'berth_security_alerts',
    help: 'Alerts about guests that abuse other systems, detected within the last 15 minutes',
    labelNames: ['host', 'type', 'severity'],
    registers: [registry],
    collect() {
      this.reset()
      const sinceMs = Date.now() - 15 * 60_000
      for (const { hostId, alert } of view.alerts())
        if (alert.lastAtMs > sinceMs) this.inc({ host: hostId, type: alert.type, severity: alert.severity })
    },
  })
  for (const figure of agentFigures) addAgentFigure(registry, view, figure)
}

interface AgentFigure {
  readonly name: string
  readonly help: string
  readonly counter?: boolean
  read(metrics: AgentMetrics): number
}

const mebibyte = 1_048_576

const agentFigures: readonly AgentFigure[] = [
  {
    name: 'berth_host_cpu_usage_ratio',
    help: 'Usage of all processors, 0 to 1',
    read: (m) => m.cpuUsagePct / 100,
  },
  { name: 'berth_host_memory_total_bytes', help: 'Memory', read: (m) => m.ramTotalMb * mebibyte },
  { name: 'berth_host_memory_used_bytes', help: 'Memory in use', read: (m) => m.ramUsedMb * mebibyte },
  { name: 'berth_host_disk_total_bytes', help: 'Size of the storage pool', read: (m) => m.diskTotalBytes },
  {
    name: 'berth_host_disk_used_bytes',
    help: 'Used space of the storage pool',
    read: (m) => m.diskUsedBytes,
  },
  {
    name: 'berth_host_disk_reserve_bytes',
    help: 'Free space of the storage pool below which nothing new is accepted',
    read: (m) => m.diskReserveBytes,
  },
  { name: 'berth_host_warnings', help: 'Warnings in the report of the host', read: (m) => m.warnings.length },
  { name: 'berth_host_load1', help: 'Load average of one minute', read: (m) => m.load1 },
  { name: 'berth_host_load5', help: 'Load average of five minutes', read: (m) => m.load5 },
  { name: 'berth_host_load15', help: 'Load average of a quarter of an hour', read: (m) => m.load15 },
  { name: 'berth_host_nat_ports_used', help: 'Mapped NAT ports', read: (m) => m.natPortsUsed },
  {
    name: 'berth_agent_resident_memory_bytes',
    help: 'Resident memory of the agent',
    read: (m) => m.agentRssBytes,
  },
  {
    name: 'berth_agent_event_loop_lag_seconds',
    help: 'Event loop lag of the agent',
    read: (m) => m.agentEventLoopLagMs / 1000,
  },
  { name: 'berth_agent_operations_running', help: 'Running operations', read: (m) => m.operationsRunning },
  { name: 'berth_agent_operations_pending', help: 'Pending operations', read: (m) => m.operationsPending },
  {
    name: 'berth_agent_cpu_seconds_total',
    help: 'Processor time of the agent',
    counter: true,
    read: (m) => m.agentCpuSeconds,
  },
  {
    name: 'berth_agent_operations_done_total',
    help: 'Operations that succeeded since the agent started',
    counter: true,
    read: (m) => m.operationsDone,
  },
  {
    name: 'berth_agent_operations_failed_total',
    help: 'Operations that failed since the agent started',
    counter: true,
    read: (m) => m.operationsFailed,
  },
  {
    name: 'berth_agent_security_packets_total',
    help: 'Packets of guests that were checked for abuse',
    counter: true,
    read: (m) => m.securityPackets,
  },
  {
    name: 'berth_agent_security_packets_lost_total',
    help: 'Packets of guests that could not be checked for abuse',
    counter: true,
    read: (m) => m.securityPacketsLost,
  },
  {
    name: 'berth_agent_repairs_total',
    help: 'Differences from the desired state that the agent has repaired since its start',
    counter: true,
    read: (m) => m.repairs,
  },
]

function addAgentFigure(registry: Registry, view: FleetView, figure: AgentFigure): void {
  const settings = { name: figure.name, help: figure.help, labelNames: ['host'], registers: [registry] }
  const readings = (): [string, number][] =>
    view.hosts().flatMap((host) => (host.metrics ? [[host.id, figure.read(host.metrics)]] : []))
  if (figure.counter)
    new Counter({
      ...settings,
      collect() {
        this.reset()
        for (const [host, value] of readings()) this.inc({ host }, value)
      },
    })
  else
    new Gauge({
      ...settings,
      collect() {
        this.reset()
        for (const [host, value] of readings()) this.set({ host }, value)
      },
    })
}
