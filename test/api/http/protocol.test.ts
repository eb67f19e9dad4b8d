import { expect } from 'chai'
import { exchange } from '../../support/gateway/raw-exchange.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const maxBodyBytes = 4096

describe('the HTTP protocol', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ maxBodyBytes })
  })
  after(() => gateway.close())

  const create = { name: 'proto', template_id: 'debian-12' }

  it('answers requests for unknown endpoints with 501, and requests for missing containers with 404', async () => {
    for (const [method, path] of [
      ['GET', '/nothing'],
      ['POST', '/containers/web1/no-such-action'],
      ['DELETE', '/nothing'],
      ['OPTIONS', '/nothing'],
    ] as const) {
      const { status, body } = await gateway.request(method, path, { key: '' })
      expect([status, body.code], `${method} ${path}`).to.deep.equal([501, 'unsupported'])
    }
    expect((await gateway.request('GET', '/containers/missing')).body.code).to.equal('not_found')
  })

  it('answers an unknown method of a known path with 405 and the header Allow', async () => {
    const { status, headers, body } = await gateway.request('PUT', '/containers', { key: '' })
    expect([status, body.code, headers['allow']]).to.deep.equal([405, 'method_not_allowed', 'GET, HEAD, OPTIONS, POST'])
    const options = await gateway.request('OPTIONS', '/containers', { key: '' })
    expect([options.status, options.headers['allow']]).to.deep.equal([204, 'GET, HEAD, OPTIONS, POST'])
  })

  it('answers HEAD like GET, without the body', async () => {
    const get = await gateway.request('GET', '/dashboard')
    const head = await gateway.request('HEAD', '/dashboard')
    expect([head.status, head.text, head.headers['etag']]).to.deep.equal([200, '', get.headers['etag']])
    expect(head.headers['content-length']).to.equal(String(get.text.length))
  })

  it('uses the client’s request id if it is valid', async () => {
    const ask = async (id: string) =>
      (await gateway.request('GET', '/dashboard', { headers: { 'x-request-id': id } })).headers['x-request-id']
    expect(await ask('client-id.0001')).to.equal('client-id.0001')
    for (const id of ['short', 'has blanks in it', '<script>alert(1)</script>', 'x'.repeat(65)])
      expect(await ask(id)).to.match(/^[0-9a-f-]{36}$/)
  })

  it('accepts the key in X-API-Key or Authorization, and rejects missing, wrong and contradictory keys', async () => {
    const ask = (headers: Record<string, string>) => gateway.request('GET', '/dashboard', { key: '', headers })
    const bearer = `Bearer ${gateway.adminKey}`
    expect((await ask({ authorization: bearer })).status).to.equal(200)
    expect((await ask({ authorization: bearer, 'x-api-key': gateway.adminKey })).status).to.equal(200)
    for (const headers of [{}, { 'x-api-key': 'berth_sk_wrong' }, { authorization: bearer, 'x-api-key': 'other' }]) {
      const { status, body, headers: sent } = await ask(headers)
      expect([status, body.code, sent['www-authenticate']]).to.deep.equal([401, 'unauthorized', 'Bearer'])
    }
  })

  it('accepts a GET with a JSON content type but without a body', async () =>
    expect(
      (await gateway.request('GET', '/dashboard', { headers: { 'content-type': 'application/json' } })).status,
    ).to.equal(200))

  it('ignores unknown fields, and a body that the endpoint does not need', async () => {
    const body = { ...create, cpu_percent: 5, extra_ports: 3, nonsense: { deep: [] } }
    expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
    for (const ignored of ['[]', '', '{"a":1}', 'no json at all', '[1,2,3]'])
      expect((await gateway.request('POST', '/containers/proto/start', { body: ignored })).status).to.equal(202)
  })

  it('treats an empty list as a missing body if the body is optional, with any content type', async () => {
    const prefix = { interface: 'eth0', prefix: '2001:db8:1::/64' }
    const { status } = await gateway.request('PUT', '/routing', { body: { ipv6_prefixes: [prefix] } })
    expect(status).to.equal(200)
    for (const path of await optionalBodies('absent'))
      for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded'])
        for (const body of ['[]', '', '{}']) {
          const reply = await gateway.request('POST', path, { body, headers: { 'content-type': type } })
          expect(reply.status, `${path} ${type} ${body}: ${reply.text}`).to.be.oneOf([200, 202])
        }
  })

  it('treats a body that is not an object as missing if the body is optional', async () => {
    for (const path of await optionalBodies('bodies'))
      for (const body of ['null', '[1]', '[{"ipv6_count":3}]', '"x"', '5', 'no json', 'force=true', '{"force":']) {
        const reply = await gateway.request('POST', path, { body })
        expect(reply.status, `${path} ${body}: ${reply.text}`).to.be.oneOf([200, 202])
      }
    const { data } = (await gateway.request('GET', '/containers/bodies')).body
    expect(data.ipv6_addresses).to.have.length(1)
    const deep = `{"force":${'['.repeat(100)}${']'.repeat(100)}}`
    const refused = await gateway.request('POST', '/containers/bodies/stop', { body: deep })
    expect([refused.status, refused.body.code]).to.deep.equal([400, 'invalid_json'])
    const wrong = await gateway.request('POST', '/containers/bodies/stop', { body: '{"force":"perhaps"}' })
    expect([wrong.status, wrong.body.code]).to.deep.equal([400, 'invalid_field'])
  })

  /** Adds a container. @returns paths of endpoints for it that have an optional body */
  async function optionalBodies(name: string): Promise<string[]> {
    await gateway.fleet.addGuest({ name })
    return ['stop', 'restart', 'ipv6'].map((action) => `/containers/${name}/${action}`)
  }

  for (const [name, body, status, code, headers] of [
    ['broken JSON', '{"name":', 400, 'invalid_json', {}],
    ['a list as the body', '[1]', 400, 'invalid_json', {}],
    ['null as the body', 'null', 400, 'invalid_json', {}],
    ['a string as the body', '"x"', 400, 'invalid_json', {}],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 400, 'invalid_json', {}],
    ['a deeply nested body', `{"name":${'['.repeat(1000)}${']'.repeat(1000)}}`, 400, 'invalid_json', {}],
    ['a missing body', undefined, 400, 'missing_field', {}],
    ['an empty list as the body', '[]', 400, 'missing_field', {}],
    [
      'the content type of forms',
      'name=x',
      415,
      'unsupported_media_type',
      { 'content-type': 'application/x-www-form-urlencoded' },
    ],
    [
      'a charset other than UTF-8',
      '{}',
      415,
      'unsupported_media_type',
      { 'content-type': 'application/json; charset=utf-16' },
    ],
    ['a compressed body', '{}', 415, 'unsupported_media_type', { 'content-encoding': 'gzip' }],
    ['a body larger than the limit', JSON.stringify({ name: 'x'.repeat(maxBodyBytes) }), 413, 'payload_too_large', {}],
    ['a body forty times as large as the limit', 'x'.repeat(40 * maxBodyBytes), 413, 'payload_too_large', {}],
  ] as [string, string | Buffer | undefined, number, string, Record<string, string>][])
    it(`refuses ${name}`, async () => {
      const options = { headers, ...(body === undefined ? {} : { body }) }
      const reply = await gateway.request('POST', '/containers', options)
      expect([reply.status, reply.body.code]).to.deep.equal([status, code])
    })

  it('names the invalid field in the error', async () => {
    for (const [change, code, field] of [
      [{ name: undefined }, 'missing_field', 'name'],
      [{ ram_mb: '512 MB' }, 'invalid_field', 'ram_mb'],
      [{ ram_mb: 512.5 }, 'invalid_field', 'ram_mb'],
      [{ virtualization: 'docker' }, 'invalid_field', 'virtualization'],
      [{ nat_port_mappings: [{ container_port: 70000 }] }, 'invalid_field', 'nat_port_mappings.0.container_port'],
      [{ public_ipv4s: ['1.2.3'] }, 'invalid_field', 'public_ipv4s.0'],
      [{ template_id: '../etc' }, 'invalid_field', 'template_id'],
    ] as const) {
      const { status, body } = await gateway.request('POST', '/containers', {
        body: { ...create, name: 'n1', ...change },
      })
      expect([status, body.code, body.details.field]).to.deep.equal([400, code, field])
    }
  })

  it('ignores __proto__ and constructor in a body', async () => {
    const body =
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"name":"p1","template_id":"debian-12"}'
    expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
    expect(({} as Record<string, unknown>)['polluted']).to.equal(undefined)
  })

  it('accepts JSON as any text or JSON content type, and refuses multipart forms and other types', async () => {
    const send = (type: string) =>
      gateway.request('PUT', '/containers/typed/expiry', {
        body: '{"expires_at":""}',
        headers: { 'content-type': type },
      })
    await gateway.fleet.addGuest({ name: 'typed' })
    for (const type of [
      '',
      'text/plain',
      'text/plain; charset=us-ascii',
      'text/json',
      'application/vnd.x+json; charset=UTF-8',
      'application/x-www-form-urlencoded', // the default of PHP and curl; only callers with an API key may use it
      'Application/X-WWW-Form-Urlencoded; charset=UTF-8',
    ])
      expect((await send(type)).status, type).to.equal(200)
    for (const type of ['multipart/form-data; boundary=x', 'application/xml', 'text/plain; charset=utf-16']) {
      const { status, body } = await send(type)
      expect([status, body.message], type).to.deep.equal([
        415,
        'the body must be JSON, sent with "Content-Type: application/json"',
      ])
    }
  })

  it('ignores doubled slashes, empty headers and repeated headers with the same value', async () => {
    expect(
      await exchange(
        gateway,
        `GET //api//v1/dashboard?a=//b HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\n\r\n`,
      ),
    ).to.match(/^HTTP\/1.1 200 /)
    await gateway.fleet.addGuest({ name: 'headed' })
    const stop = (headers: Record<string, string>) => gateway.request('POST', '/containers/headed/stop', { headers })
    const [one, two] = [await stop({ 'idempotency-key': '' }), await stop({ 'idempotency-key': '' })]
    expect(one.body.data.task_id).not.to.equal(two.body.data.task_id)
    expect((await stop({ 'if-match': ' ' })).status).to.equal(202)
    const [first, again] = [await stop({ 'idempotency-key': 'k1' }), await stop({ 'idempotency-key': 'k1, k1' })]
    expect([again.text, again.headers['idempotency-replayed']]).to.deep.equal([first.text, 'true'])
  })

  it('explains an error with the field, the rule and an example', async () => {
    const refuse = async (body: object) =>
      (await gateway.request('POST', '/containers', { body })).body.message as string
    expect(await refuse({ ...create, template_id: '../etc' })).to.equal(
      'template_id: must be an id of lower-case letters, digits, "." and "-", for example "debian-12"',
    )
    expect(await refuse({ template_id: 'debian-12' })).to.equal('name: is required, for example "web1"')
    expect(await refuse({ ...create, ram_mb: 'much' })).to.equal('ram_mb: must be a whole number, for example 512')
    expect(await refuse({ ...create, ram_mb: 1 })).to.match(/^ram_mb: must be from 32 to \d+, for example 512$/)
    expect(await refuse({ ...create, public_ipv4s: ['x'] })).to.equal(
      'public_ipv4s.0: must be an IPv4 address, for example "203.0.113.7"',
    )
    const { body } = await gateway.request('POST', '/containers', { body: { ...create, ram_mb: 1 } })
    expect(body.details).to.deep.equal({ field: 'ram_mb', rule: 'range', values: { min: 32, max: 4_194_304 } })
  })
})
