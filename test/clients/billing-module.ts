import { expect } from 'chai'
import type { ApiReply } from '../support/gateway/api-call.js'
import type { Body } from '../support/body.js'
import { waitFor } from '../support/wait.js'
import type { ClientsHost } from './clients-host.js'

/** Encodes like PHP's json_encode: escapes slashes and non-ASCII characters, and writes `[]` for an empty object. */
function jsonEncode(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll('/', '\\/')
    .replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * Sends requests like a billing module in PHP: a base address that ends in a slash, the key in two headers, a JSON
 * content type on reads, `[]` as the body of actions, every field it knows, numbers and booleans as text.
 */
class BillingModule {
  constructor(private readonly host: ClientsHost) {}

  get(path: string): Promise<ApiReply> {
    return this.#send('GET', path)
  }

  async post(path: string, fields: object = []): Promise<Body> {
    return this.#succeed('POST', path, fields)
  }

  async put(path: string, fields: object): Promise<Body> {
    return this.#succeed('PUT', path, fields)
  }

  async delete(path: string): Promise<Body> {
    return this.#succeed('DELETE', path, [])
  }

  async #succeed(method: string, path: string, fields: object): Promise<Body> {
    const { status, text, body } = await this.#send(method, path, jsonEncode(fields))
    expect(status, `${method} ${path}: ${text}`).to.be.within(200, 202)
    expect(body.success).to.equal(true)
    return body
  }

  #send(method: string, path: string, body?: string): Promise<ApiReply> {
    const { key } = this.host
    const headers = {
      'X-API-Key': key,
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      Accept: 'application/json',
    }
    return this.host.send(method, `//api/v1${path}`, { headers, ...(body === undefined ? {} : { body }) })
  }
}

const container = 'svc-1042.example'

/** Fields of the module's order form. Like all counts, `ipv4_count` is sent even if its option `assign_ipv4` is off. */
const order = {
  name: container,
  virtualization: 'LXC',
  template_id: 'debian-12',
  vcpu: '0.5',
  ram_mb: '128',
  disk_gb: '1',
  assign_nat: '1',
  port_mapping_count: '2',
  extra_ports: '0',
  nat_port_mappings: [],
  assign_ipv4: '0',
  ipv4_count: '1',
  public_ipv4s: '',
  assign_ipv6: false,
  ipv6_count: '1',
  ipv6_addresses: [''],
  ssh_auth_mode: '',
  ssh_password: 'S3cret/pass',
  ssh_public_key: '',
  expires_at: '2031-02-03',
  network_bw_mbps: '100',
  network_down_mbps: '0',
  network_up_mbps: '0',
  io_speed_mbps: '0',
  io_read_mbps: '0',
  io_write_mbps: '0',
  monthly_traffic_gb: '500',
  traffic_mode: 'TOTAL',
  traffic_in_gb: '0',
  traffic_out_gb: '0',
  snapshot_limit: '3',
  cpu_percent: '100',
  user_data: '',
  host_id: '',
}

/** Tests the requests of a billing system's module, from the creation of a service to its end. */
export function describeBillingModule(host: ClientsHost): void {
  const module = new BillingModule(host)
  const of = (path = ''): string => `/containers/${container}${path}`
  const detail = async (): Promise<Body> => (await module.get(of())).body.data
  const waitForStatus = (status: string): Promise<unknown> =>
    waitFor(async () => (await detail()).status === status, {
      what: `${container} ${status}`,
    })

  it('tests the connection', async () => {
    const { status, body } = await module.get('/dashboard')
    expect([status, body.success]).to.deep.equal([200, true])
    expect(body.data.total_containers).to.be.a('number')
  })

  it('creates a container with every field of its order form, and finds it immediately by its name', async () => {
    const { data } = await module.post('/containers', order)
    expect(data).to.include({ name: container, ssh_password: 'S3cret/pass' })
    const row = await detail()
    expect(row.port_mappings).to.have.length(2)
    expect(row.port_mappings[0]).to.include({ container_port: 22, host_port: data.ssh_port })
    expect(row).to.include({ ram_mb: 128, disk_gb: 1, vcpu: 0.5, virtualization: 'lxc' })
    expect(row).to.include({ network_down_mbps: 100, network_up_mbps: 100, io_read_mbps: 0 })
    expect(row).to.include({
      monthly_traffic_gb: 500,
      traffic_mode: 'total',
      expires_at: '2031-02-03 23:59:59',
    })
    expect([row.public_ipv4s, row.ipv6_addresses]).to.deep.equal([[], []])
    await waitForStatus('running')
  })

  it('reads the list of containers', async () => {
    const { body } = await module.get('/containers')
    const row = (body.data as Body[]).find(({ name }) => name === container)
    expect(row).to.deep.include({ status: 'running', ssh_port: (await detail()).ssh_port })
  })

  it('finds a free port, and adds, changes and removes a mapping for it', async () => {
    const { body } = await module.get(of('/random-port?host_ip=0.0.0.0&protocol=TCP'))
    const port = String(body.data.port)
    const fields = { protocol: 'TCP', host_port: port, container_port: '80', description: 'Wéb', host_ip: '' }
    const added = (await module.post(of('/port-mappings'), fields)).data as Body[]
    expect(added[2]).to.include({
      host_port: Number(port),
      container_port: 80,
      protocol: 'tcp',
      description: 'Wéb',
    })
    const changed = (await module.put(of('/port-mappings/2'), { ...fields, container_port: '8080' })).data
    expect(changed[2]).to.include({ host_port: Number(port), container_port: 8080 })
    expect((await module.delete(of('/port-mappings/2'))).data).to.have.length(2)
  })

  it('reads usage and traffic', async () => {
    const usage = async (): Promise<Body> => (await module.get(of('/usage'))).body.data
    await waitFor(async () => (await usage()).memory_usage_bytes > 0, { what: 'a sample' })
    expect((await module.get(of('/traffic'))).body.data).to.include({ limit_gb: 500 })
  })

  it('sets the firewall, and disables the firewall without losing the rules', async () => {
    const rule = {
      id: null,
      direction: 'IN',
      protocol: 'TCP',
      action: 'accept',
      network: '',
      source_ip: null,
    }
    const rules = [{ ...rule, port: 22, description: null }]
    const set = await module.put(of('/firewall'), { enabled: '1', default_action: 'drop', rules })
    expect(set.data.rules[0]).to.include({ port: '22', network: 'all', action: 'ACCEPT', source_ip: '' })
    const off = await module.put(of('/firewall'), { enabled: '0' })
    expect(off.data).to.deep.equal({ ...set.data, enabled: false })
    const on = await module.put(of('/firewall'), { enabled: 1, default_action: 'DROP', rules: null })
    expect(on.data).to.deep.equal(set.data)
    expect((await module.get(of('/firewall'))).body.data).to.deep.equal(set.data)
  })

  it('changes the limits of a service', async () => {
    const limits = {
      vcpu: '1',
      ram_mb: '0',
      network_bw_mbps: '50',
      network_down_mbps: '0',
      network_up_mbps: '0',
    }
    const answer = await module.put(of('/resource-limit'), { ...limits, disk_gb: '1', cpu_percent: '100' })
    expect(answer.data.ignored).to.deep.equal(['cpu_percent'])
    await module.put(of('/traffic-limit'), {
      traffic_mode: 'in_out',
      traffic_in_gb: '5',
      traffic_out_gb: '6',
    })
    expect(await detail()).to.include({ vcpu: 1, ram_mb: 128, network_down_mbps: 50, network_up_mbps: 50 })
    expect(await detail()).to.include({ traffic_mode: 'split', traffic_in_gb: 5, traffic_out_gb: 6 })
    const nothing = await module.put(of('/resource-limit'), { vcpu: '0', ram_mb: '' })
    expect(nothing.message).to.equal('nothing to change')
  })

  it('extends the expiry date and resets the traffic', async () => {
    await module.put(of('/expiry'), { expires_at: '2032-02-29 12:00' })
    expect((await detail()).expires_at).to.equal('2032-02-29 12:00:00')
    await module.put(of('/expiry'), { expires_at: '0000-00-00 00:00:00' })
    expect((await detail()).expires_at).to.equal('')
    await module.post(of('/traffic-reset'))
    expect((await module.get(of('/traffic'))).body.data.total_used_bytes).to.be.lessThan(1e6)
  })

  it('stops, starts, and restarts a container', async () => {
    await module.post(of('/stop'))
    await waitForStatus('stopped')
    await module.post(of('/start'))
    await waitForStatus('running')
    const { task_id: task } = (await module.post(of('/restart'))).data as { task_id: string }
    await waitFor(async () => (await module.get(`/tasks/${task}`)).body.data.status === 'done', {})
    await waitForStatus('running')
  })

  it('resets the password and reinstalls with an empty login mode', async () => {
    const { data } = await module.post(of('/reset-password'))
    expect(data.password).to.match(/^[A-Za-z0-9]{16}$/)
    const fields = { template_id: 'debian-12', ssh_auth_mode: '', ssh_password: '', ssh_public_key: '' }
    const queued = (await module.post(of('/reinstall'), fields)).data
    expect(queued).to.include({ container_name: container, action: 'reinstall' })
    expect(queued.ssh_password).to.match(/^[A-Za-z0-9]{16}$/)
    await waitFor(async () => (await module.get(`/tasks/${queued.task_id}`)).body.data.status === 'done', {})
    await waitForStatus('running')
  })

  it('takes, restores and deletes snapshots, and sets their schedule', async () => {
    const taken = (await module.post(of('/snapshots'))).data
    expect(taken).to.include({ container_name: container, scheduled: false })
    const fields = { enabled: '1', interval_hours: '24', time: '', retention: '' }
    const { data } = await module.post(of('/snapshots/schedule'), fields)
    expect(data.container).to.include({ snapshot_schedule_enabled: true, snapshot_schedule_time: '00:00' })
    expect((await module.put(of('/snapshots/quota'), { snapshot_limit: '4' })).data.quota).to.equal(4)
    const shown = (await module.get(of('/snapshots'))).body.data
    expect((shown.snapshots as Body[]).map(({ id }) => id as string)).to.deep.equal([taken.id])
    expect((await module.post(of(`/snapshots/${taken.id}/restore`))).message).to.equal('snapshot restored')
    await waitForStatus('running')
    await module.delete(of(`/snapshots/${taken.id}`))
    await module.post(of('/snapshots/schedule'), { enabled: '0' })
    expect((await module.get(of('/snapshots'))).body.data.schedule).to.include({ enabled: false })
  })

  it('reads an empty list of webhooks', async () => {
    const { status, body } = await module.get('/webhooks')
    expect([status, body.data]).to.deep.equal([200, []])
  })

  it('reads the usage of a day, a month and a year', async () => {
    for (const range of ['day', 'month', 'year']) {
      const { status, body } = await module.get(of(`/history?range=${range}`))
      expect([status, body.data.range, Array.isArray(body.data.points)]).to.deep.equal([200, range, true])
    }
  })

  it('deletes the container', async () => {
    await module.delete(of('/delete'))
    await waitFor(async () => (await module.get(of())).status === 404)
  })
}
