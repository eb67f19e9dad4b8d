/** A state in which Prometheus must raise an alert. */
export interface AlertCase {
  readonly alert: string
  /** Time series in promtool's format. They are added to `normalState`, or replace its series with the same names. */
  readonly series: Readonly<Record<string, string>>
  /** Labels of the alert in addition to `job`, its name and its severity. */
  readonly labels: Readonly<Record<string, string>>
  /** Further alerts that this state raises. */
  readonly also?: readonly string[]
  /** Time in minutes at which the alerts are checked. Default: `usualTime` */
  readonly time?: number
}

const gateways = ['gw1:8080', 'gw2:8080'] as const
const [first] = gateways
/** Minutes after the start of the series at which alerts are checked. `lateTime` is for states that last many hours. */
export const [usualTime, lateTime] = [130, 25 * 60]
const count = lateTime + 10
/** Values of a series that never changes: one for each minute of the test. */
const steady = (value: number): string => `${value}x${count}`
const growing = (perMinute: number): string => `0+${perMinute}x${count}`

/** Selector of a series of one gateway. */
const of = (metric: string, labels: Readonly<Record<string, string>> = {}, instance: string = first): string => {
  const all = Object.entries({ job: 'berth', instance, ...labels })
  return `${metric}{${all.map(([name, value]) => `${name}="${value}"`).join(',')}}`
}
const ofAll = (metric: string, labels: Readonly<Record<string, string>>, values: string) =>
  Object.fromEntries(gateways.map((instance) => [of(metric, labels, instance), values]))
const host = { host: 'h1' }
const onHost = (metric: string, values: string) => ofAll(metric, host, values)

const requests = (status: string) => ({ method: 'GET', route: '/containers', status })
const bucket = (le: string, values: string, instance: string = first) => ({
  [of('berth_http_request_duration_seconds_bucket', { ...requests('200'), le }, instance)]: values,
})
const day = 86_400

/** The normal state of two gateways on one store with two replicas, and of one host. */
export const normalState: Readonly<Record<string, string>> = {
  ...ofAll('up', {}, steady(1)),
  ...ofAll('berth_gateways', { state: 'online' }, steady(2)),
  ...ofAll('berth_gateways', { state: 'offline' }, steady(0)),
  ...ofAll('berth_gateway_process_start_time_seconds', {}, steady(0)),
  ...ofAll('berth_gateway_nodejs_eventloop_lag_p99_seconds', {}, steady(0.12)),
  ...ofAll('berth_gateway_process_resident_memory_bytes', {}, steady(3e8)),
  ...ofAll('berth_gateway_process_open_fds', {}, steady(200)),
  ...ofAll('berth_gateway_process_max_fds', {}, steady(20_000)),
  ...ofAll('berth_http_request_duration_seconds_count', requests('200'), growing(6000)),
  ...ofAll('berth_http_request_duration_seconds_count', requests('500'), growing(3)),
  ...Object.assign({}, ...['0.1', '10', '+Inf'].map((le) => bucket(le, growing(6000)))),
  ...ofAll('berth_tls_certificate_start_timestamp_seconds', {}, steady(0)),
  ...ofAll('berth_tls_certificate_end_timestamp_seconds', {}, steady(6 * day)),
  ...ofAll('berth_ca_end_timestamp_seconds', {}, steady(1000 * day)),
  ...ofAll('berth_store_up', {}, steady(1)),
  ...ofAll('berth_store_replicas', {}, steady(2)),
  ...ofAll('berth_store_confirming_replicas', {}, steady(1)),
  ...ofAll('berth_store_replication_lag_bytes', {}, steady(2000)),
  ...ofAll('berth_store_unconfirmed_total', {}, steady(3)),
  ...ofAll('berth_store_failovers_total', {}, steady(1)),
  ...ofAll('berth_lease_held', { lease: 'webhook-lease' }, steady(0)),
  [of('berth_lease_held', { lease: 'webhook-lease' })]: steady(1),
  ...ofAll('berth_lease_held', { lease: 'drain-worker' }, steady(0)), // only held while there is work to do
  [of('berth_lease_epoch', { lease: 'webhook-lease' })]: steady(7),
  ...onHost('berth_host_up', steady(1)),
  ...onHost('berth_host_outdated', steady(0)),
  ...onHost('berth_host_warnings', steady(0)),
  ...onHost('berth_host_disk_total_bytes', steady(1e12)),
  ...onHost('berth_host_disk_used_bytes', steady(7e11)),
  ...onHost('berth_host_disk_reserve_bytes', steady(2e10)),
  ...onHost('berth_host_memory_total_bytes', steady(1e11)),
  ...onHost('berth_host_memory_used_bytes', steady(8e10)),
  ...onHost('berth_host_cpu_usage_ratio', steady(0.7)),
  ...onHost('berth_agent_event_loop_lag_seconds', steady(0.02)),
  ...onHost('berth_agent_resident_memory_bytes', steady(2e8)),
  ...onHost('berth_agent_operations_failed_total', growing(0.05)),
  ...onHost('berth_agent_operations_pending', steady(3)),
  ...onHost('berth_agent_repairs_total', growing(0.1)),
  ...onHost('berth_agent_security_packets_total', growing(60_000)),
  ...onHost('berth_agent_security_packets_lost_total', growing(60)),
  ...ofAll('berth_guests', { status: 'running' }, steady(50)),
}

const instance = { instance: first }
const lease = { lease: 'webhook-lease' }
const oneGateway = (alert: string, metric: string, values: string): AlertCase => ({
  alert,
  series: { [of(metric)]: values },
  labels: instance,
})
/** Makes a case in which all gateways report the same problem of the host. */
const theHost = (alert: string, metric: string, values: string): AlertCase => ({
  alert,
  series: onHost(metric, values),
  labels: host,
})

/** For each alert, a state that raises it. */
export const alertCases: readonly AlertCase[] = [
  oneGateway('BerthGatewayDown', 'up', steady(0)),
  {
    alert: 'BerthGatewayOffline',
    series: ofAll('berth_gateways', { state: 'offline' }, steady(1)),
    labels: {},
  },
  oneGateway('BerthGatewayRestarts', 'berth_gateway_process_start_time_seconds', `0+600x${count}`),
  oneGateway('BerthGatewayEventLoopSlow', 'berth_gateway_nodejs_eventloop_lag_p99_seconds', steady(0.6)),
  oneGateway('BerthGatewayMemoryHigh', 'berth_gateway_process_resident_memory_bytes', steady(3e9)),
  oneGateway('BerthGatewayFilesExhausted', 'berth_gateway_process_open_fds', steady(17_000)),
  {
    alert: 'BerthHttpErrors',
    series: { [of('berth_http_request_duration_seconds_count', requests('503'))]: growing(600) },
    labels: instance,
  },
  {
    alert: 'BerthHttpSlow',
    series: bucket('0.1', growing(5000)),
    labels: instance,
  },
  {
    ...oneGateway('BerthCertificateExpires', 'berth_tls_certificate_end_timestamp_seconds', steady(1.2 * day)),
    time: lateTime,
  },
  {
    alert: 'BerthCaExpires',
    series: ofAll('berth_ca_end_timestamp_seconds', {}, steady(80 * day)),
    labels: {},
    time: lateTime,
  },
  oneGateway('BerthStoreDown', 'berth_store_up', steady(0)),
  oneGateway('BerthStoreWritesRefused', 'berth_store_replicas', steady(0)),
  oneGateway('BerthStoreNotRedundant', 'berth_store_replicas', steady(1)),
  oneGateway('BerthStoreLagging', 'berth_store_replication_lag_bytes', steady(2e6)),
  oneGateway('BerthStoreUnconfirmedWrites', 'berth_store_unconfirmed_total', growing(1)),
  oneGateway('BerthStoreFailover', 'berth_store_failovers_total', `0x${usualTime - 10} 1x20`),
  {
    ...oneGateway('BerthStoreFailoversRepeated', 'berth_store_failovers_total', growing(0.2)),
    also: ['BerthStoreFailover'],
  },
  { alert: 'BerthLeaseNotHeld', series: { [of('berth_lease_held', lease)]: steady(0) }, labels: lease },
  { alert: 'BerthLeaseHeldTwice', series: ofAll('berth_lease_held', lease, steady(1)), labels: lease },
  { alert: 'BerthLeaseMoves', series: { [of('berth_lease_epoch', lease)]: growing(0.5) }, labels: lease },
  theHost('BerthHostOffline', 'berth_host_up', steady(0)),
  { alert: 'BerthHostPartlyReachable', series: { [of('berth_host_up', host)]: steady(0) }, labels: host },
  { ...theHost('BerthHostOutdated', 'berth_host_outdated', steady(1)), time: lateTime },
  theHost('BerthHostWarnings', 'berth_host_warnings', steady(2)),
  {
    ...theHost('BerthHostPoolFull', 'berth_host_disk_used_bytes', steady(9.9e11)),
    also: ['BerthHostPoolNearlyFull'],
  },
  theHost('BerthHostPoolNearlyFull', 'berth_host_disk_used_bytes', steady(9e11)),
  theHost('BerthHostMemoryFull', 'berth_host_memory_used_bytes', steady(9.8e10)),
  theHost('BerthHostCpuBusy', 'berth_host_cpu_usage_ratio', steady(0.99)),
  theHost('BerthAgentEventLoopSlow', 'berth_agent_event_loop_lag_seconds', steady(0.6)),
  theHost('BerthAgentMemoryHigh', 'berth_agent_resident_memory_bytes', steady(2e9)),
  theHost('BerthOperationsFail', 'berth_agent_operations_failed_total', growing(0.5)),
  theHost('BerthOperationsWait', 'berth_agent_operations_pending', steady(30)),
  theHost('BerthHostRepairs', 'berth_agent_repairs_total', growing(1)),
  { alert: 'BerthGuestsFailed', series: ofAll('berth_guests', { status: 'error' }, steady(1)), labels: {} },
  { ...theHost('BerthMoveStuck', 'berth_guest_moves', steady(1)), time: lateTime },
  {
    alert: 'BerthAbuse',
    series: ofAll('berth_security_alerts', { ...host, type: 'port_scan', severity: 'high' }, steady(1)),
    labels: { ...host, type: 'port_scan' },
  },
  theHost('BerthAbuseDetectionIncomplete', 'berth_agent_security_packets_lost_total', growing(6000)),
]
