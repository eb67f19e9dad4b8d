import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../../support/body.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/*
 * Tests the fields that clients read from the network endpoints, with their types, and the requests that clients send.
 * The API document describes further fields. Every answer in these tests is checked against it.
 */

type Type = 'string' | 'number' | 'boolean' | readonly Fields[]
interface Fields {
  readonly [field: string]: Type | Fields
}

const mapping = {
  container_port: 'number',
  host_port: 'number',
  protocol: 'string',
  description: 'string',
} as const
const usage = { used: 'number', remaining: 'string', total: 'string' } as const
const poolAddress = {
  address: 'string',
  interface: 'string',
  prefix_len: 'number',
  gateway: 'string',
} as const
const prefix = { ...poolAddress, prefix: 'string' } as const
const holder = { container_id: 'number', container_name: 'string' } as const
const rule: Fields = {
  id: 'string',
  direction: 'string',
  protocol: 'string',
  action: 'string',
  network: 'string',
  source_ip: 'string',
  port: 'string',
  description: 'string',
}
const firewall: Fields = { enabled: 'boolean', default_action: 'string', rules: [rule] }

/** The requests are sent in this order, because some need the results of earlier requests. */
const endpoints: readonly {
  readonly method: string
  readonly path: string
  /** Body of the request. By default a write sends `[]`, like existing clients. */
  readonly body?: object
  /** Fields of `data` in the answer. If undefined, the answer contains only a message. */
  readonly data?: Fields | readonly Fields[]
}[] = [
  {
    method: 'PUT',
    path: '/routing',
    body: {
      items: [{ address: '203.0.113.10', interface: 'eth0', prefix_len: 24, gateway: '203.0.113.1' }],
      ipv6_prefixes: [{ interface: 'eth0', prefix: '2001:db8:1::', prefix_len: 64, gateway: 'fe80::1' }],
      nat4_port_range: { start: 20_000, end: 59_999 },
    },
    data: { ipv4: usage, public_ipv4_addresses: [poolAddress], ipv6_prefixes: [prefix] },
  },
  { method: 'PUT', path: '/routing', data: { ipv4: usage } },
  { method: 'POST', path: '/containers/{id}/ipv6', data: { id: 'number', name: 'string', ipv6: 'string' } },
  {
    method: 'POST',
    path: '/containers/{id}/port-mappings',
    body: { protocol: 'tcp', host_port: 25_080, container_port: 80, description: 'web' },
    data: [mapping],
  },
  {
    method: 'PUT',
    path: '/containers/{id}/port-mappings/1',
    body: { protocol: 'tcp', host_port: 25_081, container_port: 81, description: 'web' },
    data: [mapping],
  },
  { method: 'PUT', path: '/containers/{id}/port-mappings/1', data: [mapping] },
  {
    method: 'GET',
    path: '/routing',
    data: {
      nat4: usage,
      ipv4: usage,
      ipv6: usage,
      public_ipv4_addresses: [poolAddress],
      ipv4_assignments: [{ ...holder, ...poolAddress }],
      nat4_mappings: [
        {
          ...holder,
          status: 'string',
          ip: 'string',
          host_port: 'number',
          container_port: 'number',
          protocol: 'string',
        },
      ],
      ipv6_assignments: [{ ...holder, address: 'string', prefix_len: 'number', interface: 'string' }],
    },
  },
  { method: 'DELETE', path: '/containers/{id}/port-mappings/1', data: [mapping] },
  { method: 'GET', path: '/containers/{id}/random-port', data: { port: 'number' } },
  {
    method: 'POST',
    path: '/routing/ipv4-scan',
    body: { cidr: '203.0.113.0/28' },
    data: [{ ...poolAddress, status: 'string', usable: 'boolean', reason: 'string' }],
  },
  {
    method: 'GET',
    path: '/ipv6/status',
    data: { available: 'boolean', reachable: 'boolean', reason: 'string', prefixes: [prefix] },
  },
  {
    method: 'PUT',
    path: '/containers/{id}/firewall',
    data: firewall,
    body: {
      enabled: true,
      default_action: 'DROP',
      rules: [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', port: '22' }],
    },
  },
  { method: 'GET', path: '/containers/{id}/firewall', data: firewall },
  {
    method: 'GET',
    path: '/containers/{id}/traffic',
    data: {
      mode: 'string',
      limit_gb: 'number',
      in_limit_gb: 'number',
      out_limit_gb: 'number',
      total_used_bytes: 'number',
      rx_used_bytes: 'number',
      tx_used_bytes: 'number',
      used_pct: 'number',
      reset_date: 'string',
    },
  },
  { method: 'POST', path: '/containers/{id}/traffic-reset' },
  {
    method: 'PUT',
    path: '/containers/{id}/traffic-limit',
    body: { traffic_mode: 'in_out', monthly_traffic_gb: 0, traffic_in_gb: 5, traffic_out_gb: 5 },
  },
  { method: 'PUT', path: '/containers/{id}/traffic-limit' },
  { method: 'PUT', path: '/containers/{id}/resource-limit', body: { network_bw_mbps: 10, io_speed_mbps: 5 } },
  { method: 'PUT', path: '/containers/{id}/resource-limit' },
  { method: 'PUT', path: '/containers/{id}/expiry', body: { expires_at: '2031-01-02 03:04:05' } },
  { method: 'PUT', path: '/containers/{id}/expiry', body: { expires_at: '' } },
]

function compare(value: unknown, type: Type | Fields, at: string): void {
  if (typeof type === 'string') return void expect(value, at).to.be.a(type)
  if (Array.isArray(type)) {
    expect(value, at).to.be.an('array').that.is.not.empty
    for (const item of value as unknown[]) compare(item, (type as readonly Fields[])[0]!, `${at}[]`)
    return
  }
  expect(value, at).to.be.an('object')
  for (const [field, inner] of Object.entries(type)) compare((value as Body)[field], inner, `${at}.${field}`)
}

describe('the network endpoints', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway()
    guest = await gateway.fleet.addGuest()
    await gateway.request('PUT', '/routing', { body: { items: [{ address: '203.0.113.10' }] } })
    const body = { name: 'public', template_id: 'debian-12', assign_ipv4: true }
    expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
  })
  after(() => gateway.close())

  for (const prefix of ['/api/v1', '/api'])
    describe(`under ${prefix}`, () => {
      before(async () => {
        guest = await gateway.fleet.addGuest({ name: `shop.${prefix.length}_A-1` })
      })

      for (const { method, path, body = method === 'GET' ? undefined : [], data } of endpoints)
        it(`answer as existing clients expect: ${method} ${path}${body === undefined ? '' : ` with the body ${JSON.stringify(body).replace(/^(.{40}).+/, '$1…')}`}`, async () => {
          // Existing clients send the key in two headers, a JSON content type even without a body, and names as ids.
          const headers = { authorization: `Bearer ${gateway.adminKey}`, 'content-type': 'application/json' }
          const to = prefix + path.replace('{id}', guest.name)
          const answer = await gateway.request(method, to, { ...(body && { body }), headers })
          expect(answer.status, answer.text).to.equal(200)
          expect(answer.body.success).to.equal(true)
          if (method !== 'GET' && path !== '/routing/ipv4-scan') expect(answer.body.message).to.be.a('string')
          if (data) compare(answer.body.data, data, 'data')
          else expect(answer.body.data).to.equal(undefined)
        })
    })

  it('show reset_date as a month, and the size of a pool as a number or “unlimited”', async () => {
    const read = async (path: string): Promise<Body> => (await gateway.request('GET', path)).body.data
    expect((await read(`/containers/${guest.id}/traffic`)).reset_date).to.match(/^\d{4}-\d{2}$/)
    const { nat4, ipv4, ipv6 } = await read('/routing')
    for (const { remaining, total } of [nat4, ipv4]) expect([remaining, total].join()).to.match(/^\d+,\d+$/)
    expect([ipv6.remaining, ipv6.total].join()).to.match(/^(\d+|unlimited),(\d+|unlimited)$/)
  })

  it('answer 304 to a request with an ETag if nothing has changed', async () => {
    for (const path of ['/routing', '/ipv6/status', `/containers/${guest.id}/traffic`]) {
      const { headers } = await gateway.request('GET', path)
      const again = { headers: { 'if-none-match': headers['etag'] ?? '' } }
      expect((await gateway.request('GET', path, again)).status, path).to.equal(304)
    }
  })

  it('accept the answer of GET /routing as the body of PUT', async () => {
    const { data } = (await gateway.request('GET', '/routing')).body
    const { nat4_port_range, public_ipv4_addresses, ipv6_prefixes } = data
    const body = { nat4_port_range, public_ipv4_addresses, ipv6_prefixes }
    expect((await gateway.request('PUT', '/routing', { body })).body.data).to.deep.include(body)
  })

  it('require separate scopes to read the pools, to change the pools, and to read the IPv6 status', () => {
    const scopes = gateway.api.routes
      .filter(({ tag, path }) => tag === 'Routing' && !path.startsWith('/containers/'))
      .map(({ method, path, scope }) => `${method} ${path} ${scope}`)
    expect(scopes).to.have.members([
      'GET /routing routing:read',
      'PUT /routing routing:write',
      'POST /routing/ipv4-scan routing:write',
      'GET /ipv6/status ipv6:read',
    ])
  })
})
