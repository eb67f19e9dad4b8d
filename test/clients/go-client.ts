import { expect } from 'chai'
import type { Body } from '../support/body.js'
import { waitFor } from '../support/wait.js'
import type { ClientsHost } from './clients-host.js'
import { decodeGo, type GoStruct, type GoType } from './go-decoder.js'

const mapping: GoStruct = { container_port: 'int64', host_port: 'int64', protocol: 'string', description: 'string' }
const container: GoStruct = {
  id: 'int64',
  uuid: 'string',
  name: 'string',
  virtualization: 'string',
  template: 'string',
  vcpu: 'float64',
  ram_mb: 'int64',
  disk_gb: 'int64',
  status: 'string',
  ip: 'string',
  ipv6: 'string',
  network_down_mbps: 'int64',
  network_up_mbps: 'int64',
  io_read_mbps: 'int64',
  io_write_mbps: 'int64',
  ssh_port: 'int64',
  ssh_password: 'string',
  port_mappings: [mapping],
  policy_blocked: 'bool',
  policy_reason: 'string',
  expires_at: 'string',
  created_at: 'string',
  host_id: 'string',
  public_ipv4s: ['string'],
  ipv6_addresses: ['string'],
  traffic_mode: 'string',
}
const created: GoStruct = {
  task_id: 'string',
  id: 'int64',
  uuid: 'string',
  name: 'string',
  status: 'string',
  action: 'string',
  ssh_port: 'int64',
  ssh_password: 'string',
}
const task: GoStruct = {
  task_id: 'string',
  container_id: 'int64',
  container_name: 'string',
  status: 'string',
  action: 'string',
  progress: 'int64',
  stage: 'string',
  error: 'string',
  created_at: 'string',
  started_at: 'string',
  finished_at: 'string',
  user: 'string',
  host_id: 'string',
}
const queued: GoStruct = { task_id: 'string', container_name: 'string', status: 'string', action: 'string' }
const reinstalled: GoStruct = { ...queued, ssh_password: 'string' }
const usage: GoStruct = {
  cpu_usage_pct: 'float64',
  cpu_usage_usec: 'int64',
  memory_usage_bytes: 'int64',
  disk_usage_bytes: 'int64',
  network_rx_bytes: 'int64',
  network_tx_bytes: 'int64',
  load1: 'float64',
}
const traffic: GoStruct = {
  mode: 'string',
  limit_gb: 'float64',
  total_used_bytes: 'int64',
  rx_used_bytes: 'int64',
  tx_used_bytes: 'int64',
  used_pct: 'float64',
  reset_date: 'string',
}
const rule: GoStruct = {
  id: 'string',
  direction: 'string',
  protocol: 'string',
  action: 'string',
  network: 'string',
  source_ip: 'string',
  port: 'string',
  description: 'string',
}
const firewall: GoStruct = { enabled: 'bool', default_action: 'string', rules: [rule] }
const dashboard: GoStruct = { running: 'int64', stopped: 'int64', total_containers: 'int64' }
const apiKey: GoStruct = {
  id: 'int64',
  name: 'string',
  key: 'string',
  prefix: 'string',
  ip_whitelist: 'string',
  scopes: ['string'],
  expires_at: 'string',
  disabled: 'bool',
  container_uuids: ['string'],
}
const snapshot: GoStruct = {
  id: 'string',
  container_id: 'int64',
  container_name: 'string',
  created_at: 'string',
  created_by: 'string',
  scheduled: 'bool',
  size_bytes: 'int64',
}
const schedule: GoStruct = {
  enabled: 'bool',
  interval_hours: 'int64',
  last_run: 'string',
  next_run: 'string',
  time: 'string',
  created_by: 'string',
}
const snapshots: GoStruct = { quota: 'int64', schedule, snapshots: [snapshot] }
const scheduled: GoStruct = {
  container: {
    id: 'int64',
    name: 'string',
    snapshot_schedule_enabled: 'bool',
    snapshot_schedule_interval_hours: 'int64',
    snapshot_schedule_time: 'string',
  },
}
const quota: GoStruct = {
  quota: 'int64',
  container: { id: 'int64', name: 'string', snapshot_limit: 'int64' },
}
const failure: GoStruct = { success: 'bool', message: 'string', code: 'string', request_id: 'string' }

/** Sends requests like net/http and encoding/json in Go: exact types, nil slices as null, no empty bodies. */
class GoClient {
  constructor(private readonly host: ClientsHost) {}

  async do(method: string, path: string, type: GoType | undefined, fields?: object): Promise<Body> {
    const { status, body, text } = await this.#roundTrip(method, path, fields)
    expect(status, `${method} ${path}: ${text}`).to.be.within(200, 299)
    expect(body.success).to.equal(true)
    if (type) decodeGo(type, body.data)
    return body.data
  }

  async fail(method: string, path: string, fields?: object): Promise<string> {
    const { status, body } = await this.#roundTrip(method, path, fields)
    expect(status).to.be.within(400, 599)
    decodeGo(failure, body, 'error')
    return body.code as string
  }

  #roundTrip(method: string, path: string, fields?: object) {
    const headers = {
      'User-Agent': 'Go-http-client/1.1',
      'Accept-Encoding': 'gzip',
      Authorization: `Bearer ${this.host.key}`,
    }
    const body = fields && `${marshal(fields)}\n` // Go's json.Encoder adds a line break
    return this.host.send(method, `/api/v1${path}`, {
      headers: body === undefined ? headers : { ...headers, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body }),
    })
  }
}

/** Encodes like encoding/json in Go, which escapes <, > and &. */
function marshal(fields: object): string {
  return JSON.stringify(fields).replace(/[<>&]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`)
}

const name = 'go-1'

export function describeGoClient(host: ClientsHost): void {
  const client = new GoClient(host)
  const taskDone = (id: string): Promise<unknown> =>
    waitFor(async () => (await client.do('GET', `/tasks/${id}`, task)).status === 'done', {})

  it('cannot decode a value of a different type', () => {
    for (const [type, value] of [
      ['int64', null],
      ['int64', 1.5],
      ['int64', '1'],
      ['string', null],
      ['bool', 1],
      [['string'], null],
      [{ id: 'int64' }, {}],
    ] as [GoType, unknown][])
      expect(() => decodeGo(type, value), JSON.stringify([type, value])).to.throw(/cannot unmarshal/)
  })

  it('creates a container and decodes all data about it', async () => {
    const { task_id: id } = await client.do('POST', '/containers', created, {
      name,
      virtualization: 'lxc',
      template_id: 'debian-12',
      vcpu: 1,
      ram_mb: 64,
      disk_gb: 1,
      assign_nat: true,
      port_mapping_count: 1,
      assign_ipv4: false,
      ipv4_count: 0,
      public_ipv4s: null,
      ipv6_addresses: null,
      nat_port_mappings: null,
      expires_at: '2031-02-03T04:05:06Z',
    })
    await client.do('GET', `/containers/${name}`, container)
    await taskDone(id as string)
    await client.do('GET', '/containers', [container])
    await client.do('GET', '/containers/list', [{ id: 'int64', uuid: 'string', name: 'string' }])
    await client.do('GET', `/containers/${name}/usage`, usage)
    await client.do('GET', `/containers/${name}/traffic`, traffic)
    await client.do('GET', '/tasks', [task])
    await client.do('GET', '/dashboard', dashboard)
  })

  it('changes port mappings and the firewall', async () => {
    const description = 'a <b> & c'
    const fields = { protocol: 'tcp', host_port: 0, container_port: 8080, description }
    const mappings = await client.do('POST', `/containers/${name}/port-mappings`, [mapping], fields)
    expect(mappings[1]).to.include({ description })
    await client.do('DELETE', `/containers/${name}/port-mappings/1`, [mapping])
    const wanted = { enabled: true, default_action: 'ACCEPT', rules: null }
    await client.do('PUT', `/containers/${name}/firewall`, firewall, wanted)
    await client.do('GET', `/containers/${name}/firewall`, firewall)
  })

  it('takes a snapshot, restores it, and sets the schedule and the quota', async () => {
    const path = `/containers/${name}/snapshots`
    const { id } = await client.do('POST', path, snapshot)
    const wanted = { enabled: true, interval_hours: 24, time: '03:30' }
    await client.do('POST', `${path}/schedule`, scheduled, wanted)
    await client.do('PUT', `${path}/quota`, quota, { quota: 2 })
    await client.do('GET', path, snapshots)
    await client.do('GET', '/snapshots', [snapshot])
    await client.do('POST', `${path}/${id}/restore`, undefined)
    await client.do('DELETE', `${path}/${id}`, undefined)
    expect(await client.fail('POST', `${path}/${id}/restore`)).to.equal('not_found')
  })

  it('resets the password and reinstalls', async () => {
    const { password } = await client.do('POST', `/containers/${name}/reset-password`, { password: 'string' })
    expect(password).to.match(/^[A-Za-z0-9]{16}$/)
    const wanted = { template_id: 'debian-12', ssh_auth_mode: 'auto_password', ssh_password: '' }
    const answer = await client.do('POST', `/containers/${name}/reinstall`, reinstalled, wanted)
    await taskDone(answer.task_id as string)
    await client.do('GET', `/containers/${name}`, container)
  })

  it('creates an API key, and gets an error if a restriction is null', async () => {
    const fields = { name: 'go', scopes: ['container:read'], ip_whitelist: '' }
    const { id } = await client.do('POST', '/api-keys', apiKey, fields)
    for (const field of ['scopes', 'container_uuids', 'ip_whitelist', 'expires_at', 'disabled'])
      expect(await client.fail('POST', '/api-keys', { ...fields, [field]: null }), field).to.equal('invalid_field')
    await client.do('DELETE', `/api-keys/${id}`, undefined)
  })

  it('decodes the answers of failed requests', async () => {
    expect(await client.fail('GET', '/containers/none')).to.equal('not_found')
    expect(await client.fail('POST', '/containers', {})).to.equal('missing_field')
    expect(await client.fail('POST', `/containers/${name}/reinstall`, {})).to.equal('missing_field')
  })

  it('stops, starts and deletes the container', async () => {
    for (const action of ['stop', 'start'])
      await taskDone((await client.do('POST', `/containers/${name}/${action}`, queued)).task_id as string)
    await taskDone((await client.do('DELETE', `/containers/${name}/delete`, queued)).task_id as string)
    expect(await client.fail('GET', `/containers/${name}`)).to.equal('not_found')
  })
}
