import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

const maxBodyBytes = 4096

describe('the HTTP protocol', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ maxBodyBytes })
  })
  after(() => gateway.close())

  const create = { name: 'proto', template_id: 'debian-12' }

  it('answers unknown endpoints with 501, never like a missing container', async () => {
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

  it('answers other methods of known paths with 405 and Allow', async () => {
    const { status, headers, body } = await gateway.request('PUT', '/containers', { key: '' })
    expect([status, body.code, headers['allow']]).to.deep.equal([
      405,
      'method_not_allowed',
      'GET, HEAD, OPTIONS, POST',
    ])
    const options = await gateway.request('OPTIONS', '/containers', { key: '' })
    expect([options.status, options.headers['allow']]).to.deep.equal([204, 'GET, HEAD, OPTIONS, POST'])
  })

  it('answers HEAD like GET, without the body', async () => {
    const get = await gateway.request('GET', '/dashboard')
    const head = await gateway.request('HEAD', '/dashboard')
    expect([head.status, head.text, head.headers['etag']]).to.deep.equal([200, '', get.headers['etag']])
    expect(head.headers['content-length']).to.equal(String(get.text.length))
  })

  it('takes a client’s request id where it is sane', async () => {
    const ask = async (id: string) =>
      (await gateway.request('GET', '/dashboard', { headers: { 'x-request-id': id } })).headers[
        'x-request-id'
      ]
    expect(await ask('client-id.0001')).to.equal('client-id.0001')
    for (const id of ['short', 'has blanks in it', '<script>alert(1)</script>', 'x'.repeat(65)])
      expect(await ask(id)).to.match(/^[0-9a-f-]{36}$/)
  })

  it('reads either key header, and refuses none, wrong and contradicting ones', async () => {
    const ask = (headers: Record<string, string>) =>
      gateway.request('GET', '/dashboard', { key: '', headers })
    const bearer = `Bearer ${gateway.adminKey}`
    expect((await ask({ authorization: bearer })).status).to.equal(200)
    expect((await ask({ authorization: bearer, 'x-api-key': gateway.adminKey })).status).to.equal(200)
    for (const headers of [
      {},
      { 'x-api-key': 'berth_sk_wrong' },
      { authorization: bearer, 'x-api-key': 'other' },
    ]) {
      const { status, body, headers: sent } = await ask(headers)
      expect([status, body.code, sent['www-authenticate']]).to.deep.equal([401, 'unauthorized', 'Bearer'])
    }
  })

  it('lets a GET have a JSON content type without a body', async () =>
    expect(
      (await gateway.request('GET', '/dashboard', { headers: { 'content-type': 'application/json' } }))
        .status,
    ).to.equal(200))

  it('ignores unknown fields, and a body where none belongs', async () => {
    const body = { ...create, cpu_percent: 5, extra_ports: 3, nonsense: { deep: [] } }
    expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
    for (const ignored of ['[]', '', '{"a":1}', 'no json at all', '[1,2,3]'])
      expect((await gateway.request('POST', '/containers/proto/start', { body: ignored })).status).to.equal(
        202,
      )
  })

  it('takes nothing and an empty list for no body where one may be absent, whatever their type', async () => {
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

  it('takes what is no object for no body where one may be absent', async () => {
    for (const path of await optionalBodies('bodies'))
      for (const body of [
        'null',
        '[1]',
        '[{"ipv6_count":3}]',
        '"x"',
        '5',
        'no json',
        'force=true',
        '{"force":',
      ]) {
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

  /** Of a container of their own. */
  async function optionalBodies(name: string): Promise<string[]> {
    await gateway.fleet.addGuest({ name })
    return ['stop', 'restart', 'ipv6'].map((action) => `/containers/${name}/${action}`)
  }

  for (const [name, body, status, code, headers] of [
    ['broken JSON', '{"name":', 400, 'invalid_json', {}],
    ['a list', '[1]', 400, 'invalid_json', {}],
    ['null', 'null', 400, 'invalid_json', {}],
    ['a string', '"x"', 400, 'invalid_json', {}],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 400, 'invalid_json', {}],
    ['deep nesting', `{"name":${'['.repeat(1000)}${']'.repeat(1000)}}`, 400, 'invalid_json', {}],
    ['no body', undefined, 400, 'missing_field', {}],
    ['an empty list', '[]', 400, 'missing_field', {}],
    [
      'another type',
      'name=x',
      415,
      'unsupported_media_type',
      { 'content-type': 'application/x-www-form-urlencoded' },
    ],
    [
      'another charset',
      '{}',
      415,
      'unsupported_media_type',
      { 'content-type': 'application/json; charset=utf-16' },
    ],
    ['a compressed body', '{}', 415, 'unsupported_media_type', { 'content-encoding': 'gzip' }],
    ['more than the limit', JSON.stringify({ name: 'x'.repeat(maxBodyBytes) }), 413, 'payload_too_large', {}],
    ['far more than the limit', 'x'.repeat(40 * maxBodyBytes), 413, 'payload_too_large', {}],
  ] as [string, string | Buffer | undefined, number, string, Record<string, string>][])
    it(`refuses ${name}`, async () => {
      const options = { headers, ...(body === undefined ? {} : { body }) }
      const reply = await gateway.request('POST', '/containers', options)
      expect([reply.status, reply.body.code]).to.deep.equal([status, code])
    })

  it('bounds the connections of one source on which nothing comes', async () => {
    const { hostname, port } = new URL(gateway.url)
    const sockets = Array.from({ length: 400 }, () => connect(Number(port), hostname).resume())
    for (const socket of sockets) socket.on('error', () => undefined)
    const open = () => sockets.filter(({ readyState }) => readyState === 'open').length
    try {
      await Promise.all(sockets.map((socket) => once(socket, 'connect')))
      await waitFor(() => open() <= 256, { what: 'the oldest have ended' })
      expect((await gateway.request('GET', '/containers')).status).to.equal(200)
      expect(open()).to.be.greaterThan(200)
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  })

  describe('answers 413 to 50 MB', () => {
    const bytes = 50_000_000
    const path = '/api/v1/containers'
    const sent = () => ({ 'x-api-key': gateway.adminKey, 'content-type': 'application/json' })

    for (const [name, more] of [
      ['on a connection that stays', {}],
      ['on one that closes', { connection: 'close' }],
    ] as const)
      it(`to a client that writes all of it before it reads, ${name}`, async () => {
        const { hostname, port } = new URL(gateway.url)
        const socket = connect(Number(port), hostname)
        const fields = Object.entries({ host: 'x', ...sent(), ...more, 'content-length': bytes })
        const lines = fields.map(([field, value]) => `${field}: ${value}\r\n`).join('')
        socket.write(`POST ${path} HTTP/1.1\r\n${lines}\r\n`)
        for (let left = bytes; left > 0; left -= 1_000_000)
          if (!socket.write(Buffer.alloc(1_000_000, ' '))) await once(socket, 'drain')
        const [answer] = (await once(socket, 'data')) as [Buffer]
        expect(answer.toString())
          .to.match(/^HTTP\/1.1 413 /)
          .and.to.include('payload_too_large')
        socket.destroy()
      })

    it('to curl', async () => {
      const headers = Object.entries(sent()).flatMap(([field, value]) => ['-H', `${field}: ${value}`])
      const curl = spawn('curl', [
        '-sS',
        '-w',
        '%{http_code}',
        ...headers,
        '--data-binary',
        '@-',
        gateway.url + path,
      ])
      curl.stdin.on('error', () => undefined).end(Buffer.alloc(bytes, ' '))
      const [out, problems] = await Promise.all([text(curl.stdout), text(curl.stderr)])
      expect(out, problems).to.include('payload_too_large').and.to.match(/413$/)
    })
  })

  it('keeps to the limit when the length is not announced', async () => {
    const reply = await exchange(
      gateway,
      'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
        `X-API-Key: ${gateway.adminKey}\r\nTransfer-Encoding: chunked\r\n\r\n` +
        `2000\r\n${' '.repeat(0x2000)}\r\n0\r\n\r\n`,
    )
    expect(reply)
      .to.match(/^HTTP\/1.1 413 /)
      .and.to.include('payload_too_large')
  })

  it('names the field it refuses', async () => {
    for (const [change, code, field] of [
      [{ name: undefined }, 'missing_field', 'name'],
      [{ ram_mb: '512 MB' }, 'invalid_field', 'ram_mb'],
      [{ ram_mb: 512.5 }, 'invalid_field', 'ram_mb'],
      [{ virtualization: 'docker' }, 'invalid_field', 'virtualization'],
      [
        { nat_port_mappings: [{ container_port: 70000 }] },
        'invalid_field',
        'nat_port_mappings.0.container_port',
      ],
      [{ public_ipv4s: ['1.2.3'] }, 'invalid_field', 'public_ipv4s.0'],
      [{ template_id: '../etc' }, 'invalid_field', 'template_id'],
    ] as const) {
      const { status, body } = await gateway.request('POST', '/containers', {
        body: { ...create, name: 'n1', ...change },
      })
      expect([status, body.code, body.details.field]).to.deep.equal([400, code, field])
    }
  })

  it('is not polluted by __proto__ members', async () => {
    const body =
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"name":"p1","template_id":"debian-12"}'
    expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
    expect(({} as Record<string, unknown>)['polluted']).to.equal(undefined)
  })

  describe('raw requests', () => {
    for (const [name, line] of [
      ['a path that climbs', 'GET /api/v1/../../etc/passwd HTTP/1.1'],
      ['encoded slashes', 'GET /api/v1/containers/..%2f..%2fetc%2fpasswd HTTP/1.1'],
      ['broken percent encoding', 'GET /api/v1/containers/%zz%c3%28 HTTP/1.1'],
      ['a NUL', 'GET /api/v1/containers/%00 HTTP/1.1'],
      ['a backslash', 'GET /api/v1\\containers HTTP/1.1'],
      ['an absolute target', 'GET http://other.example/nothing HTTP/1.1'],
      ['a target with a bad port', 'GET http://other.example:99999/nothing HTTP/1.1'],
      ['a target that is no URL', 'GET http://[bad HTTP/1.1'],
      ['an asterisk', 'OPTIONS * HTTP/1.1'],
      ['an unknown method', 'PROPFIND /api/v1/containers HTTP/1.1'],
      ['__proto__', 'GET /api/v1/containers/__proto__ HTTP/1.1'],
      ['a query of junk', 'GET /api/v1/containers/x?%%%&&==&a[b]=c&__proto__=1 HTTP/1.1'],
    ] as const)
      for (const host of ['x', 'a b', '"><script>', '[::1', 'x:99999999'])
        it(`${name}, Host ${host}`, async () => {
          const reply = await exchange(
            gateway,
            `${line}\r\nHost: ${host}\r\nX-API-Key: ${gateway.adminKey}\r\nConnection: close\r\n\r\n`,
          )
          expect(reply).to.match(/^HTTP\/1.1 (4\d\d|501) /)
          expect(reply)
            .to.match(/X-Request-Id: /i)
            .and.to.include('"success":false')
        })

    for (const [name, text, status] of [
      ['no HTTP', 'hello\r\n\r\n', 400],
      ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
      ['two Hosts', 'GET /healthz HTTP/1.1\r\nHost: x\r\nhost: y\r\nConnection: close\r\n\r\n', 400],
      ['the same Host twice', 'GET /healthz HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n', 400],
      ['headers of 1 MB', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(1_000_000)}\r\n\r\n`, 431],
      [
        'two lengths',
        'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx',
        400,
      ],
      [
        'smuggling',
        'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx',
        400,
      ],
    ] as const)
      it(`${name}`, async () =>
        expect(await exchange(gateway, text)).to.match(new RegExp(`^HTTP/1.1 ${status} `)))
  })

  it('refuses what is malformed after an answer on the same connection, and not in the place of one', async () => {
    const good = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'
    const { port, hostname } = new URL(gateway.url)
    const socket = connect({ port: Number(port), host: hostname })
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString()))
    socket.write(good)
    await waitFor(() => text.endsWith('ok\n'))
    socket.write('hello\r\n\r\n')
    await once(socket, 'close')
    expect(text).to.match(/^HTTP\/1.1 200 [^]*HTTP\/1.1 400 [^]*"success":false/)
    expect(await exchange(gateway, `${good}hello\r\n\r\n`), 'at once').not.to.match(/^HTTP\/1.1 400 /)
  })

  it('refuses itself what Node would refuse in a form of its own', async () => {
    const ask = (lines: string) => exchange(gateway, `${lines}\r\nX-Request-Id: named-by-client\r\n\r\n`)
    const noHost = await ask('GET /api/v1/dashboard HTTP/1.1')
    expect(noHost)
      .to.match(/^HTTP\/1.1 400 /)
      .and.to.include('"code":"invalid_request"')
    const expects = await ask('GET /api/v1/dashboard HTTP/1.1\r\nHost: x\r\nExpect: a miracle')
    expect(expects)
      .to.match(/^HTTP\/1.1 417 /)
      .and.to.include('"code":"expectation_failed"')
    for (const answer of [noHost, expects]) expect(answer).to.include('X-Request-Id: named-by-client')
  })

  it('ends the connection with a refusal that comes while the body is still on its way', async () => {
    const head = `Host: x\r\nContent-Type: application/json\r\nX-API-Key: ${gateway.adminKey}\r\n`
    const long = await exchange(
      gateway,
      `POST /api/v1/containers HTTP/1.1\r\n${head}Content-Length: 99999\r\n\r\n{`,
    )
    expect(long)
      .to.match(/^HTTP\/1.1 413 /)
      .and.to.match(/^Connection: close\r$/m)
    const late = await exchange(
      gateway,
      'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{',
    )
    expect(late)
      .to.match(/^HTTP\/1.1 401 /)
      .and.to.match(/^Connection: close\r$/m)
    const whole = await exchange(
      gateway,
      `POST /api/v1/containers HTTP/1.1\r\n${head}Content-Length: 2\r\n\r\n{}`,
    )
    expect(whole)
      .to.match(/^HTTP\/1.1 400 /)
      .and.not.to.include('Connection: close')
  })

  it('takes JSON under any text or JSON type or none, and no form', async () => {
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
      'application/x-www-form-urlencoded', // what PHP and curl name by default; with a key only, see csrf.test.ts
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

  it('collapses doubled slashes, and takes empty and equal headers as they are meant', async () => {
    expect(
      await exchange(
        gateway,
        `GET //api//v1/dashboard?a=//b HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\n\r\n`,
      ),
    ).to.match(/^HTTP\/1.1 200 /)
    await gateway.fleet.addGuest({ name: 'headed' })
    const stop = (headers: Record<string, string>) =>
      gateway.request('POST', '/containers/headed/stop', { headers })
    const [one, two] = [await stop({ 'idempotency-key': '' }), await stop({ 'idempotency-key': '' })]
    expect(one.body.data.task_id).not.to.equal(two.body.data.task_id)
    expect((await stop({ 'if-match': ' ' })).status).to.equal(202)
    const [first, again] = [
      await stop({ 'idempotency-key': 'k1' }),
      await stop({ 'idempotency-key': 'k1, k1' }),
    ]
    expect([again.text, again.headers['idempotency-replayed']]).to.deep.equal([first.text, 'true'])
  })

  it('says what is wrong in words: the field, the rule, an example', async () => {
    const refuse = async (body: object) =>
      (await gateway.request('POST', '/containers', { body })).body.message as string
    expect(await refuse({ ...create, template_id: '../etc' })).to.equal(
      'template_id: must be an id of lower-case letters, digits, "." and "-", for example "debian-12"',
    )
    expect(await refuse({ template_id: 'debian-12' })).to.equal('name: is required, for example "web1"')
    expect(await refuse({ ...create, ram_mb: 'much' })).to.equal(
      'ram_mb: must be a whole number, for example 512',
    )
    expect(await refuse({ ...create, ram_mb: 1 })).to.match(
      /^ram_mb: must be from 32 to \d+, for example 512$/,
    )
    expect(await refuse({ ...create, public_ipv4s: ['x'] })).to.equal(
      'public_ipv4s.0: must be an IPv4 address, for example "203.0.113.7"',
    )
  })
})

/** Sends bytes as they are; resolves with all that comes back. */
function exchange(gateway: TestGateway, text: string): Promise<string> {
  const { hostname, port } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(text))
    let answer = ''
    const done = () => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(5000, () => reject(new Error(`no answer to ${text.slice(0, 60)}: ${answer}`)))
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1')
      if (/\r\n\r\n[^]*\}$/.test(answer)) done()
    })
    socket.on('close', done)
    socket.on('error', () => (answer === '' ? reject(new Error('reset without an answer')) : done()))
  })
}
