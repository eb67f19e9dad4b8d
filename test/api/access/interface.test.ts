import { expect } from 'chai'
import type { TSchema } from 'typebox'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/** The routes that existing billing systems and panels use: the methods, then the path. */
const endpoints = `
GET /dashboard
GET /host-info
GET /host-report
GET PUT /routing
POST /routing/ipv4-scan
GET /ipv6/status
GET /tasks
DELETE /tasks/{task_id}
GET POST /containers
GET POST /containers/list
GET /containers/{id}
POST /containers/{id}/start
POST /containers/{id}/stop
POST /containers/{id}/restart
POST /containers/{id}/reinstall
DELETE /containers/{id}/delete
GET /containers/{id}/usage
GET /containers/{id}/traffic
POST /containers/{id}/traffic-reset
PUT /containers/{id}/traffic-limit
PUT /containers/{id}/resource-limit
PUT /containers/{id}/expiry
POST /containers/{id}/reset-password
POST /containers/{id}/ipv6
GET /containers/{id}/random-port
POST /containers/{id}/port-mappings
PUT DELETE /containers/{id}/port-mappings/{index}
GET PUT /containers/{id}/firewall
GET /snapshots
GET POST /containers/{id}/snapshots
DELETE /containers/{id}/snapshots/{snapshot_id}
POST /containers/{id}/snapshots/{snapshot_id}/restore
POST /containers/{id}/snapshots/schedule
PUT /containers/{id}/snapshots/quota
GET /templates
GET /images
GET /images/enabled
POST DELETE /images/custom
POST /images/download
POST /images/cancel
DELETE /images/delete
PUT /images/toggle
GET /security/alerts
POST /security/check
GET /security/logs
GET /security/summary
GET PUT /security/settings
GET POST /swap
GET POST PUT /language
GET PUT /ssl
GET PUT /webssh-origins
POST /batch-create
POST /batch-action
POST /ssh-ticket
POST /vnc-ticket
GET PUT /access-policy
POST /sub-user/create
GET /sub-users
POST /sub-users/{id}/rotate-password
GET /sub-users/{id}/audit-logs
GET /sub-users/{id}/login-logs
GET /audit-logs
GET /login-logs
GET POST /api-keys
PATCH DELETE /api-keys/{id}
`

/** Fields that `data`, or each row of it, must have in the answers of a route; `a.b` is the field `b` within `a`. */
const fields = `
GET /dashboard: running stopped total_containers
GET /host-info: cpu.cores cpu.usage_pct ram.total_mb ram.used_mb ram.free_mb disk.total_gb disk.used_gb disk.free_gb
GET /host-info: network.public_ipv4 network.public_ipv4_interface network.public_ipv6 network.public_ipv6_interface
GET /host-info: load.load1 load.load5 load.load15
GET /host-report: generated_at summary.status summary.warnings host.hostname host.kernel resources.cpu_cores
GET /host-report: resources.ram_total_mb resources.disk_total_gb network.public_ipv4 network.public_ipv6
GET /routing: nat4.used nat4.remaining nat4.total ipv4.used ipv4.remaining ipv4.total ipv6.used ipv6.remaining ipv6.total
GET /routing: public_ipv4_addresses.address public_ipv4_addresses.interface public_ipv4_addresses.prefix_len
GET /routing: public_ipv4_addresses.gateway ipv4_assignments.container_id ipv4_assignments.container_name
GET /routing: ipv4_assignments.address ipv4_assignments.interface ipv4_assignments.prefix_len ipv4_assignments.gateway
GET /routing: nat4_mappings.container_id nat4_mappings.container_name nat4_mappings.status nat4_mappings.ip
GET /routing: nat4_mappings.host_port nat4_mappings.container_port nat4_mappings.protocol
GET /routing: ipv6_assignments.container_id ipv6_assignments.container_name ipv6_assignments.address
GET /routing: ipv6_assignments.prefix_len ipv6_assignments.interface
PUT /routing: ipv4.used ipv4.remaining ipv4.total public_ipv4_addresses.address ipv6_prefixes.interface
PUT /routing: ipv6_prefixes.address ipv6_prefixes.prefix ipv6_prefixes.prefix_len ipv6_prefixes.gateway
POST /routing/ipv4-scan: address interface prefix_len gateway status usable reason
GET /ipv6/status: available reachable reason prefixes.interface prefixes.address prefixes.prefix prefixes.prefix_len
GET /tasks: task_id container_name status action
GET /containers: id uuid name virtualization template vcpu ram_mb disk_gb network_down_mbps network_up_mbps
GET /containers: io_read_mbps io_write_mbps status ip ipv6 ssh_port ssh_password port_mappings.container_port
GET /containers: port_mappings.host_port port_mappings.protocol port_mappings.description
GET /containers/list: id uuid name status ip
POST /containers/list: id uuid name status ip
GET /containers/{id}: id uuid name status ip ipv6 ssh_port ssh_password policy_blocked
POST /containers/{id}/start: task_id container_name status action
POST /containers/{id}/stop: task_id container_name status action
POST /containers/{id}/restart: task_id container_name status action
POST /containers/{id}/reinstall: task_id container_name status action
DELETE /containers/{id}/delete: task_id container_name status action
GET /containers/{id}/usage: cpu_usage_pct cpu_usage_usec memory_usage_bytes disk_usage_bytes network_rx_bytes
GET /containers/{id}/usage: network_tx_bytes load1 load5 load15
GET /containers/{id}/traffic: mode limit_gb in_limit_gb out_limit_gb total_used_bytes rx_used_bytes tx_used_bytes
GET /containers/{id}/traffic: used_pct reset_date
POST /containers/{id}/reset-password: password
POST /containers/{id}/ipv6: id name ipv6
GET /containers/{id}/random-port: port
GET /containers/{id}/firewall: enabled default_action rules.id rules.direction rules.protocol rules.action rules.network
GET /containers/{id}/firewall: rules.source_ip rules.port rules.description
GET /containers/{id}/snapshots: quota schedule.enabled schedule.interval_hours schedule.last_run schedule.next_run
GET /containers/{id}/snapshots: schedule.time schedule.created_by snapshots.id snapshots.container_id
GET /containers/{id}/snapshots: snapshots.container_name snapshots.created_at snapshots.created_by snapshots.scheduled
POST /containers/{id}/snapshots: id container_id container_name created_at created_by scheduled size_bytes
POST /containers/{id}/snapshots/schedule: container.id container.name container.snapshot_schedule_enabled
POST /containers/{id}/snapshots/schedule: container.snapshot_schedule_interval_hours container.snapshot_schedule_time
PUT /containers/{id}/snapshots/quota: quota container.id container.name container.snapshot_limit
GET /templates: id name distro release arch description
GET /images: id name type downloaded enabled downloading progress size_bytes
GET /images/enabled: id name distro release arch variant description type
GET /security/alerts: id container_id container_name type severity source_ip target_ip target_port detail timestamp count
GET /security/logs: src_ip dst_ip src_port dst_port protocol state timestamp
GET /security/summary: critical high medium low total_alerts
GET /security/settings: auto_shutdown
PUT /security/settings: auto_shutdown
GET /swap: total_mb used_mb free_mb enabled swap_file
POST /swap: total_mb used_mb free_mb enabled swap_file
GET /language: language
PUT /language: language
POST /language: language
GET /ssl: enabled mode target detected_host needs_restart certificate.subject certificate.issuer certificate.names
GET /ssl: certificate.not_before certificate.not_after
PUT /ssl: enabled mode target needs_restart
GET /webssh-origins: origins current_origin
PUT /webssh-origins: origins current_origin
POST /ssh-ticket: ticket
POST /vnc-ticket: ticket
GET /access-policy: enabled allowed_sources trusted_proxies
PUT /access-policy: enabled allowed_sources trusted_proxies
POST /sub-user/create: id username password container_names access_code created_at
POST /sub-users/{id}/rotate-password: username password access_code
GET /sub-users: id username container_names container_uuids access_code created_at last_login last_login_ip disabled
GET /audit-logs: time action target detail user success
GET /login-logs: time username ip user_agent success
GET /api-keys: id name prefix ip_whitelist created_at last_used scopes expires_at disabled container_uuids last_used_ip
POST /api-keys: id name key prefix ip_whitelist scopes expires_at disabled container_uuids
PATCH /api-keys/{id}: id name prefix scopes expires_at disabled container_uuids
`

/** The path with `{}` in place of each parameter. */
const plain = (path: string): string => path.replace(/\{[^}]*\}/g, '{}')

describe('the API for existing clients', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const find = (method: string, path: string) =>
    gateway.api.routes.find((route) => route.method === method && plain(route.path) === plain(path))

  for (const line of endpoints.trim().split('\n')) {
    const [path = '', ...methods] = line.split(' ').reverse()
    for (const method of methods)
      it(`has the route ${method} ${path}`, () => expect(find(method, path), 'a route').not.to.equal(undefined))
  }

  it('returns every field that clients read', () => {
    for (const line of fields.trim().split('\n')) {
      const [name = '', names = ''] = line.split(': ')
      const [method = '', path = ''] = name.split(' ')
      const data = find(method, path)?.data
      for (const field of names.split(' '))
        expect(findField(data, field.split('.')), `${name}: ${field}`).not.to.equal(undefined)
    }
  })
})

/** Returns the schema of the field to which `way` leads, through objects, lists and nullable values. */
function findField(schema: TSchema | undefined, way: readonly string[]): TSchema | undefined {
  const { anyOf, items, properties } = (schema ?? {}) as Partial<Record<'anyOf', TSchema[]>> & {
    readonly items?: TSchema
    readonly properties?: Record<string, TSchema>
  }
  if (items) return findField(items, way)
  if (anyOf) return anyOf.map((one) => findField(one, way)).find((found) => found !== undefined)
  const [first, ...rest] = way
  return first === undefined ? schema : properties && findField(properties[first], rest)
}
