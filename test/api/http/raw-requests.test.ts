import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import { exchange } from '../../support/gateway/raw-exchange.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('a raw request', function () {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ maxBodyBytes: 4096 })
  })
  after(() => gateway.close())

  for (const [name, line] of [
    ['a path that contains ..', 'GET /api/v1/../../etc/passwd HTTP/1.1'],
    ['encoded slashes in the path', 'GET /api/v1/containers/..%2f..%2fetc%2fpasswd HTTP/1.1'],
    ['broken percent encoding', 'GET /api/v1/containers/%zz%c3%28 HTTP/1.1'],
    ['a NUL character in the path', 'GET /api/v1/containers/%00 HTTP/1.1'],
    ['a backslash in the path', 'GET /api/v1\\containers HTTP/1.1'],
    ['an absolute URL as the target', 'GET http://other.example/nothing HTTP/1.1'],
    ['a target URL with an invalid port', 'GET http://other.example:99999/nothing HTTP/1.1'],
    ['an invalid URL as the target', 'GET http://[bad HTTP/1.1'],
    ['an asterisk as the target', 'OPTIONS * HTTP/1.1'],
    ['an unknown method', 'PROPFIND /api/v1/containers HTTP/1.1'],
    ['__proto__ as the name of a container', 'GET /api/v1/containers/__proto__ HTTP/1.1'],
    ['an invalid query string', 'GET /api/v1/containers/x?%%%&&==&a[b]=c&__proto__=1 HTTP/1.1'],
  ] as const)
    for (const host of ['x', 'a b', '"><script>', '[::1', 'x:99999999'])
      it(`with ${name} and the Host header '${host}' gets an error in the format of the API`, async () => {
        const reply = await exchange(
          gateway,
          `${line}\r\nHost: ${host}\r\nX-API-Key: ${gateway.adminKey}\r\nConnection: close\r\n\r\n`,
        )
        expect(reply).to.match(/^HTTP\/1.1 (4\d\d|501) /)
        expect(reply)
          .to.match(/X-Request-Id: /i)
          .and.to.include('"success":false')
      })

  for (const [name, sent, status] of [
    ['text that is not HTTP', 'hello\r\n\r\n', 400],
    ['a missing Host header', 'GET / HTTP/1.1\r\n\r\n', 400],
    ['two different Host headers', 'GET /healthz HTTP/1.1\r\nHost: x\r\nhost: y\r\nConnection: close\r\n\r\n', 400],
    ['a repeated Host header', 'GET /healthz HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n', 400],
    ['headers of 1 MB', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(1_000_000)}\r\n\r\n`, 431],
    [
      'two Content-Length headers',
      'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx',
      400,
    ],
    [
      'both a Content-Length and chunks',
      'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx',
      400,
    ],
  ] as const)
    it(`with ${name} gets an answer with the status ${status}`, async () =>
      expect(await exchange(gateway, sent)).to.match(new RegExp(`^HTTP/1.1 ${status} `)))

  it('is refused if it is malformed, but an earlier request on its connection is answered first', async () => {
    const good = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'
    const { port, hostname } = new URL(gateway.url)
    const socket = connect({ port: Number(port), host: hostname })
    let heard = ''
    socket.on('data', (chunk) => (heard += chunk.toString()))
    socket.write(good)
    await waitFor(() => heard.endsWith('ok\n'))
    socket.write('hello\r\n\r\n')
    await once(socket, 'close')
    expect(heard).to.match(/^HTTP\/1.1 200 [^]*HTTP\/1.1 400 [^]*"success":false/)
    expect(await exchange(gateway, `${good}hello\r\n\r\n`), 'at once').not.to.match(/^HTTP\/1.1 400 /)
  })

  it('gets an error in the format of the API if the HTTP server of Node.js rejects it', async () => {
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

  it('is refused before its body has arrived, and the gateway closes its connection', async () => {
    const head = `Host: x\r\nContent-Type: application/json\r\nX-API-Key: ${gateway.adminKey}\r\n`
    const long = await exchange(gateway, `POST /api/v1/containers HTTP/1.1\r\n${head}Content-Length: 99999\r\n\r\n{`)
    expect(long)
      .to.match(/^HTTP\/1.1 413 /)
      .and.to.match(/^Connection: close\r$/m)
    const late = await exchange(gateway, 'POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{')
    expect(late)
      .to.match(/^HTTP\/1.1 401 /)
      .and.to.match(/^Connection: close\r$/m)
    const whole = await exchange(gateway, `POST /api/v1/containers HTTP/1.1\r\n${head}Content-Length: 2\r\n\r\n{}`)
    expect(whole)
      .to.match(/^HTTP\/1.1 400 /)
      .and.not.to.include('Connection: close')
  })

  it('is still possible after one source has opened 400 idle connections, of which at most 256 stay open', async () => {
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

  describe('with a body of 50 MB gets the answer 413', () => {
    const bytes = 50_000_000
    const path = '/api/v1/containers'
    const sent = () => ({ 'x-api-key': gateway.adminKey, 'content-type': 'application/json' })

    for (const [name, more] of [
      ['on a persistent connection', {}],
      ['with the header "Connection: close"', { connection: 'close' }],
    ] as const)
      it(`even if the client sends the whole body before it reads the answer, ${name}`, async () => {
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

    it('if curl sends the request', async () => {
      const headers = Object.entries(sent()).flatMap(([field, value]) => ['-H', `${field}: ${value}`])
      const curl = spawn('curl', ['-sS', '-w', '%{http_code}', ...headers, '--data-binary', '@-', gateway.url + path])
      curl.stdin.on('error', () => undefined).end(Buffer.alloc(bytes, ' '))
      const [out, problems] = await Promise.all([text(curl.stdout), text(curl.stderr)])
      expect(out, problems).to.include('payload_too_large').and.to.match(/413$/)
    })
  })

  it('is limited in size even if it does not announce its size', async () => {
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
})
