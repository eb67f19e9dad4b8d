import { expect } from 'chai'
import fc from 'fast-check'
import { CreateBodySchema } from '../../../gateway/api/guests/create/create-body.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const runs = 150
const nasty = [
  '',
  ' ',
  '.',
  '..',
  '-rf',
  '--help',
  '../../etc/passwd',
  '/etc/shadow',
  '$(reboot)',
  '`id`',
  '; reboot',
  'a\nb',
  'a\r\nX: y',
  'a\u0000b',
  '\u2028',
  '"',
  "'",
  '\\',
  '{{7*7}}',
  '#include',
  '${jndi:x}',
  '%n%s',
  '\ud800',
  '🦊',
  'ａ',
  'a'.repeat(64),
  '0',
  '007',
  '1e3',
  'null',
  '__proto__',
  'constructor',
  'toString',
  '550e8400-e29b-41d4-a716-446655440000',
]
const text = fc.oneof(fc.constantFrom(...nasty), fc.string(), fc.string({ unit: 'binary' }))
/** Replaces unpaired surrogates, which a URL cannot contain. */
const wellFormed = (value: string): string => Buffer.from(value).toString()
const scalar = fc.oneof(
  text,
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constantFrom(null, 1e308, -1, 2 ** 53, 4294967296, 0.1 + 0.2, [], {}, [[]], [null]),
)
const anything = fc.oneof(scalar, fc.jsonValue({ maxDepth: 4 }))

describe('hostile input', function () {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
  })
  after(() => gateway.close())

  const expectRefusal = (label: string, reply: { status: number; body: { code?: string; success?: boolean } }) => {
    // The answer to an unknown endpoint is 501.
    expect(reply.status, label).to.satisfy((status: number) => status === 501 || (status >= 400 && status < 500))
    expect(reply.body, label)
      .to.include({ success: false })
      .and.to.have.property('code')
      .that.matches(/^[a-z_]+$/)
  }

  it('in the name of a new container is refused, or creates a container with exactly this name', async () => {
    await fc.assert(
      fc.asyncProperty(text, async (name) => {
        const reply = await gateway.request('POST', '/containers', {
          body: { name, template_id: 'debian-12' },
        })
        if (reply.status === 202) {
          const meant = name.trim() // the gateway ignores surrounding blanks
          expect(meant).to.match(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/)
          const found = await gateway.request('GET', `/containers/${meant}`)
          expect(found.body.data.name).to.equal(meant)
        } else expectRefusal(JSON.stringify(name), reply)
      }),
      { numRuns: runs },
    )
  })

  it('in any field of a creation is refused, or creates exactly one container', async () => {
    const before = [...gateway.fleet.guests()].length
    let created = 0
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.keys(CreateBodySchema.properties)), anything, async (field, value) => {
        const body = { name: `field-${created}`, template_id: 'debian-12', [field]: value }
        const reply = await gateway.request('POST', '/containers', { body })
        if (reply.status === 202) created++
        else expectRefusal(JSON.stringify({ field, value }), reply)
      }),
      { numRuns: 4 * runs },
    )
    expect([...gateway.fleet.guests()].length - before).to.equal(created)
  })

  it('in any field of a setting is refused or has no harmful effect', async () => {
    const guest = await gateway.fleet.addGuest()
    const prefixes = { ipv6_prefixes: [{ prefix: '2001:db8::/64' }] }
    await gateway.request('PUT', '/routing?host_id=host-a', { body: prefixes })
    const hostile = fc.oneof(
      fc.constantFrom('', '\n', 'a;b', '$(id)', '#include', '\u2028', '__proto__', '-1', '1e9', '65536', '::/0'),
      fc.jsonValue({ maxDepth: 3 }),
      fc.double(),
    )
    const rule = { direction: 'in', protocol: 'tcp', action: 'DROP', network: 'all' }
    const shapes: [string, string, (field: string, value: unknown) => object, string[]][] = [
      [
        ...([
          '/port-mappings',
          'POST',
          (field: string, value: unknown) => ({ container_port: 80, [field]: value }),
        ] as const),
        ['container_port', 'host_port', 'host_port_end', 'container_port_end', 'host_ip', 'protocol', 'description'],
      ],
      [
        '/firewall',
        'PUT',
        (field, value) => ({ enabled: true, default_action: 'DROP', rules: [{ ...rule, [field]: value }] }),
        ['id', 'direction', 'protocol', 'action', 'network', 'source_ip', 'port', 'description'],
      ],
      [
        '/firewall',
        'PUT',
        (field, value) => ({ enabled: true, [field]: value }),
        ['default_action', 'rules', 'enabled'],
      ],
      [
        '/traffic-limit',
        'PUT',
        (field, value) => ({ [field]: value }),
        ['traffic_mode', 'monthly_traffic_gb', 'traffic_reset_day'],
      ],
      [
        '/resource-limit',
        'PUT',
        (field, value) => ({ [field]: value }),
        ['vcpu', 'ram_mb', 'network_bw_mbps', 'io_read_mbps'],
      ],
      ['/expiry', 'PUT', (field, value) => ({ [field]: value }), ['expires_at']],
      ['/ipv6', 'POST', (field, value) => ({ [field]: value }), ['ipv6_count', 'ipv6_addresses']],
    ]
    for (const [path, method, bodyOf, fields] of shapes)
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...fields), hostile, async (field, value) => {
          const body = bodyOf(field, value)
          const reply = await gateway.request(method, `/containers/${guest.id}${path}`, { body })
          expect(reply.status, `${path} ${JSON.stringify(body)} ${reply.text}`).to.be.oneOf([200, 400, 409])
        }),
        { numRuns: 60 },
      )
    const pools = ['items', 'public_ipv4_addresses', 'ipv6_prefixes', 'nat4_port_range']
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...pools), hostile, async (field, value) => {
        const reply = await gateway.request('PUT', '/routing?host_id=host-b', { body: { [field]: value } })
        expect(reply.status, `${field} ${JSON.stringify(value)} ${reply.text}`).to.be.oneOf([200, 400])
      }),
      { numRuns: 60 },
    )
    expect((await gateway.request('GET', `/containers/${guest.id}`)).status).to.equal(200)
  })

  it('in place of a request body is refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.json(), text), async (body) => {
        const reply = await gateway.request('POST', '/containers', { body: Buffer.from(body) })
        expectRefusal(body, reply)
      }),
      { numRuns: runs },
    )
  })

  it('in place of an identifier in a path finds nothing', async () => {
    await fc.assert(
      fc.asyncProperty(text, fc.constantFrom('containers', 'tasks', 'api-keys', 'hosts'), async (ref, resource) => {
        const path = `/${resource}/${encodeURIComponent(wellFormed(ref))}/x`
        expectRefusal(path, await gateway.request('DELETE', path))
        const detail = `/containers/${encodeURIComponent(`no ${wellFormed(ref)}`)}`
        expect((await gateway.request('GET', detail)).status, detail).to.equal(404)
        expect((await gateway.request('DELETE', `${detail}/delete`)).status, detail).to.equal(404)
      }),
      { numRuns: runs },
    )
  })

  it('in query parameters is refused or ignored', async () => {
    const name = fc.oneof(fc.constantFrom('page', 'page_size', 'sort', 'status', 'name', 'host_id', '__proto__'), text)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, text), { maxLength: 5 }), async (pairs) => {
        const query = pairs.map((pair) => pair.map((part) => encodeURIComponent(wellFormed(part))).join('=')).join('&')
        for (const path of [
          '/containers',
          '/tasks',
          '/templates',
          '/api-keys',
          '/audit-logs',
          '/hosts',
          '/dashboard',
        ]) {
          const reply = await gateway.request('GET', `${path}?${query}`)
          if (reply.status !== 200) expectRefusal(`${path}?${query}`, reply)
        }
      }),
      { numRuns: 40 },
    )
  })

  it('in headers is refused or ignored', async () => {
    const value = fc.string({ unit: fc.constantFrom(...'abc019 ,;="\'\\/*-_.:()[]{}<>') })
    const name = fc.constantFrom(
      'x-api-key',
      'authorization',
      'idempotency-key',
      'x-request-id',
      'if-none-match',
      'content-type',
      'accept',
      'x-forwarded-for',
      'content-encoding',
    )
    await fc.assert(
      fc.asyncProperty(name, value, async (header, sent) => {
        const reply = await gateway.request('POST', '/containers/list', {
          body: [],
          headers: { [header]: sent },
        })
        if (reply.status !== 200) expectRefusal(`${header}: ${sent}`, reply)
      }),
      { numRuns: runs },
    )
  })

  it('does not appear in error messages if it possibly contains a key or a password', async () => {
    const secret = 'S3cret-value-that-must-not-come-back'
    for (const body of [
      { name: 'x', template_id: 'debian-12', ssh_auth_mode: 'password', ssh_password: `${secret} ` },
      { name: secret.repeat(3), template_id: 'debian-12' },
      { name: 'x', template_id: 'debian-12', ssh_auth_mode: 'key', ssh_public_key: secret },
    ])
      expect((await gateway.request('POST', '/containers', { body })).text).not.to.include(secret)
    expect((await gateway.request('GET', '/dashboard', { key: secret })).text).not.to.include(secret)
  })
})
