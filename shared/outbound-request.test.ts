import { expect } from 'chai'
import type { lookup } from 'node:dns'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo, LookupFunction, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import { closing, startRawServer, type RawServer } from '../test/support/raw-server.js'
import { TestAuthority } from '../test/support/gateway/tls-material.js'
import { waitFor } from '../test/support/wait.js'
import { BerthError } from './errors.js'
import { checkedLookup } from './outbound-lookup.js'
import { discardBody, OutboundClient, readText, type OutboundOptions, type OutboundOrder } from './outbound-request.js'

const large = Buffer.alloc(3_000_000, 'a')
const head = (...lines: string[]): string => ['HTTP/1.1 200 OK', ...lines, '', ''].join('\r\n')
const inChunks = (body: Buffer): string => `${body.length.toString(16)}\r\n${body.toString()}\r\n`

describe('outbound requests', function () {
  let server: RawServer | undefined
  let client: OutboundClient
  const serve = async (answer: (socket: Socket) => void): Promise<string> => (server = await startRawServer(answer)).url
  const open = (options: Partial<OutboundOptions> = {}): OutboundClient =>
    (client = new OutboundClient({
      timeouts: { connectMs: 30_000, headersMs: 30_000, bodyMs: 30_000 },
      ...options,
    }))
  /** Returns the text of the answer, or the code of the error. */
  const ask = (url: string, order: OutboundOrder = {}): Promise<string> =>
    client
      .send(url, order)
      .then(({ body }) => readText(body, 2 ** 24), codeOf)
      .catch(codeOf)
  const codeOf = (error: NodeJS.ErrnoException): string => error.code ?? error.message

  beforeEach(() => open())
  afterEach(async () => {
    client.close()
    await server?.close()
    server = undefined
  })

  describe('to a server that closes the connection while the reader is slow', () => {
    for (const [what, headers, body, outcome] of [
      ['a body with Content-Length', `Content-Length: ${large.length}`, large, 'whole'],
      ['a body without Content-Length', 'Server: x', large, 'whole'],
      ['a chunked body', 'Transfer-Encoding: chunked', `${inChunks(large)}0\r\n\r\n`, 'whole'],
      ['a body that is shorter than its Content-Length', `Content-Length: ${large.length + 1}`, large, 'answer_cut'],
      ['a chunked body whose last chunk is missing', 'Transfer-Encoding: chunked', inChunks(large), 'answer_cut'],
      [
        'a chunked body that ends within a chunk',
        'Transfer-Encoding: chunked',
        inChunks(large).slice(0, 1_000_000),
        'answer_cut',
      ],
    ] as const)
      it(`read ${what} ${outcome === 'whole' ? 'completely' : `and report the error ${outcome}`}`, async () => {
        const url = await serve(closing(`200 OK\r\n${headers}`, body))
        const answer = await client.send(url)
        expect(await readSlowly(answer.body)).to.equal(outcome)
      })

    async function readSlowly(body: AsyncIterable<Buffer>): Promise<string> {
      let bytes = 0
      try {
        for await (const chunk of body) {
          bytes += chunk.length
          await delay(1)
        }
        return bytes === large.length ? 'whole' : `${bytes} bytes`
      } catch (error) {
        return codeOf(error as Error)
      }
    }
  })

  describe('with a misbehaving server', () => {
    for (const [what, bytes, outcome] of [
      ['fail for an answer that is not HTTP', 'SSH-2.0-x\r\n', 'HPE_INVALID_CONSTANT'],
      ['fail for a missing answer', '', 'ECONNRESET'],
      ['report incomplete headers', 'HTTP/1.1 200 OK\r\nServ', 'ECONNRESET'],
      ['fail for headers without an end', `${head().slice(0, -2)}X: ${'x'.repeat(40_000)}`, 'HPE_HEADER_OVERFLOW'],
      ['fail for a header with a zero byte', head('X: a\0b'), 'HPE_INVALID_HEADER_TOKEN'],
      [
        'fail for two different values of Content-Length',
        head('Content-Length: 1', 'Content-Length: 2'),
        'HPE_UNEXPECTED_CONTENT_LENGTH',
      ],
      [
        'fail for a Content-Length in a chunked answer',
        head('Content-Length: 1', 'Transfer-Encoding: chunked'),
        'HPE_INVALID_TRANSFER_ENCODING',
      ],
      ['fail for a chunk without a size', `${head('Transfer-Encoding: chunked')}zz\r\n`, 'HPE_INVALID_CHUNK_SIZE'],
      [
        'fail for an upgrade to another protocol',
        'HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
        'answer_missing',
      ],
      ['ignore an early hint before the answer', 'HTTP/1.1 103 X\r\n\r\nHTTP/1.1 100 X\r\n\r\n' + head() + 'ok', 'ok'],
      ['ignore a second answer', `${head('Content-Length: 2')}ok${head('Content-Length: 3')}bad`, 'ok'],
      ['accept an empty answer', 'HTTP/1.1 204 X\r\n\r\n', ''],
    ] as const)
      it(what, async () => {
        expect(await ask(await serve((socket) => socket.end(bytes)))).to.equal(outcome)
      })

    it('return the answer or a connection error if the answer arrives before the request was read', async () => {
      const url = await serve((socket) => {
        socket.pause()
        socket.end(`${head('Connection: close')}no`)
      })
      expect(await ask(url, { method: 'POST', body: large })).to.be.oneOf(['no', 'ECONNRESET', 'EPIPE'])
    })

    it('return a complete answer even if the server resets the connection right after the answer', async () => {
      const url = await serve((socket) => {
        socket.write(`${head('Content-Length: 2')}ok`)
        setImmediate(() => socket.resetAndDestroy())
      })
      const { body } = await client.send(url)
      const closed = new Promise((resolve) => (body as unknown as { socket: Socket }).socket.once('close', resolve))
      await closed
      expect(await readText(body, 10)).to.equal('ok')
    })

    it('give the reason for each address in their error if no address is reachable', async () => {
      const nobody: LookupFunction = (_name, _options, done) =>
        done(null, [
          { address: '127.0.0.1', family: 4 },
          { address: '127.0.0.2', family: 4 },
        ])
      const error = await open({ lookup: nobody })
        .send('http://nobody.test:9/')
        .then(
          () => undefined,
          (cause: Error) => cause,
        )
      expect(error?.message).to.match(/ECONNREFUSED 127.0.0.1:9, .*ECONNREFUSED 127.0.0.2:9/)
    })
  })

  describe('with a silent server', () => {
    const timeouts = { connectMs: 30_000, headersMs: 30_000, bodyMs: 30_000 }

    it('time out if the name lookup or the TLS handshake does not end', async () => {
      const url = await serve(() => undefined)
      open({ timeouts: { ...timeouts, connectMs: 50 }, lookup: () => undefined })
      expect(await ask('http://never.test/')).to.equal('connect_timeout')
      expect(await ask(url.replace('http', 'https'))).to.equal('connect_timeout')
    })

    for (const [what, bytes] of [
      ['no bytes arrive', ''],
      ['headers arrive very slowly', 'X: x\r\n'],
      ['early hints arrive endlessly', 'HTTP/1.1 103 X\r\n\r\n'],
    ] as const)
      it(`time out if ${what}`, async () => {
        const url = await serve((socket) => {
          if (bytes.startsWith('X')) socket.write('HTTP/1.1 200 OK\r\n')
          const drip = setInterval(() => socket.write(bytes), 5)
          socket.once('close', () => clearInterval(drip))
        })
        open({ timeouts: { ...timeouts, headersMs: 100 } })
        expect(await ask(url)).to.equal('headers_timeout')
      })

    it('time out if the body stops arriving, but not if the reader pauses', async () => {
      const url = await serve((socket) => void socket.write(`${head('Content-Length: 3')}ab`))
      open({ timeouts: { ...timeouts, bodyMs: 50 } })
      expect(await ask(url)).to.equal('body_timeout')
      const { body } = await client.send(url)
      await waitFor(() => body.readableLength === 2, { what: 'its bytes have arrived' })
      await delay(150)
      expect([body.destroyed, body.readableLength]).to.deep.equal([false, 2])
    })
  })

  describe('that are stopped early', () => {
    const reason = new Error('enough')
    let stop: AbortController
    let sockets: Socket[]
    beforeEach(() => {
      stop = new AbortController()
      sockets = []
    })
    const silent = (bytes = ''): Promise<string> =>
      serve((socket) => {
        sockets.push(socket)
        socket.write(bytes)
      })
    const hungUp = (): Promise<boolean> => waitFor(() => sockets[0]?.destroyed, { what: 'hung up' })

    it('report the reason of an abort before, during or after the wait for a connection', async () => {
      open({ maxConnections: 1 })
      const url = await silent(head('Content-Length: 9') + 'half')
      const first = await client.send(url, { signal: stop.signal })
      const waiting = ask(url, { signal: stop.signal })
      stop.abort(reason)
      expect(await waiting).to.equal('enough')
      expect(await readText(first.body, 10).catch(codeOf)).to.equal('enough')
      await hungUp()
      expect(await ask(url, { signal: stop.signal })).to.equal('enough')
    })

    it('end with an error when the HTTP client is closed', async () => {
      const url = await silent()
      const asked = ask(url)
      await waitFor(() => sockets.length === 1, { what: 'asked' })
      client.close()
      expect(await asked).to.equal('client_closed')
      await hungUp()
    })

    it('close the connection when the reader destroys the body of the answer', async () => {
      const { body } = await client.send(await silent(head('Content-Length: 9') + 'half'))
      body.destroy()
      await hungUp()
    })
  })

  describe('to forbidden addresses', () => {
    const policy = { allowHttp: true, allowedTargets: [], setting: 'x.allowed' }
    const asked: string[] = []
    const toLoopback = ((name: string, _: object, done: (error: null, found: object[]) => void) => {
      asked.push(name)
      done(null, [{ address: '127.0.0.1', family: 4 }])
    }) as unknown as typeof lookup
    beforeEach(() => {
      asked.length = 0
      open({ lookup: checkedLookup(policy, toLoopback, () => []) })
    })

    it('are refused after the name lookup, before a connection is opened', async () => {
      let connections = 0
      const url = new URL(await serve(() => connections++))
      url.hostname = 'own.test'
      const error = await client.send(url).then(
        () => undefined,
        (cause: unknown) => cause,
      )
      expect(error).to.be.instanceOf(BerthError).and.to.include({ code: 'invalid_field' })
      expect([asked, connections]).to.deep.equal([['own.test'], 0])
    })

    it('are refused by the check of the URL, not by the name lookup, if the URL contains the address', async () => {
      expect(await ask(await serve((socket) => socket.end(`${head()}ok`)))).to.equal('ok')
      expect(asked).to.deep.equal([])
    })
  })

  describe('to a working server', () => {
    let good: Server
    let url: string
    let connections: Set<number | undefined>
    beforeEach(async () => {
      connections = new Set()
      good = createServer((request, response) => {
        connections.add(request.socket.remotePort)
        const { url: path = '', method = '', headers } = request
        if (path.startsWith('/to')) return response.writeHead(302, { location: path.slice(3) }).end('moved')
        if (path === '/long') return response.end(large)
        const chunks: Buffer[] = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.on('end', () =>
          response.end(JSON.stringify([method, path, headers['content-length'], Buffer.concat(chunks).toString()])),
        )
      })
      good.listen(0, '127.0.0.1')
      await once(good, 'listening')
      url = `http://127.0.0.1:${(good.address() as AddressInfo).port}`
    })
    afterEach(async () => {
      good.closeAllConnections()
      await new Promise((resolve) => good.close(resolve))
    })

    it('send the body and its length with every method', async () => {
      for (const method of ['POST', 'PUT', 'DELETE'])
        expect(JSON.parse(await ask(`${url}/a?b`, { method, body: 'ä' }))).to.deep.equal([method, '/a?b', '2', 'ä'])
      expect(connections.size, 'one connection').to.equal(1)
    })

    it('reuse the connection after a short discarded body, but close it after a long discarded body', async () => {
      for (const path of ['/short', '/short']) await discardBody((await client.send(url + path)).body, 1000)
      expect(connections.size).to.equal(1)
      const { body } = await client.send(`${url}/long`)
      await discardBody(body, 1000)
      await waitFor(() => body.destroyed, { what: 'cut off' })
      await ask(`${url}/short`)
      expect(connections.size).to.equal(2)
    })

    it('fail if the answer is longer than the reader accepts', async () => {
      const { body } = await client.send(`${url}/long`)
      expect(await readText(body, 1000).catch(codeOf)).to.equal('answer_too_large')
      await waitFor(() => body.destroyed, { what: 'cut off' })
    })

    it('follow redirects up to a limit, and check the target of each redirect', async () => {
      expect((await client.send(`${url}/to/x`)).status).to.equal(302)
      const seen: string[] = []
      const check = (to: string): URL => new URL((seen.push(to), to))
      const { body } = await client.follow(`${url}/to/to/%C3%A4`, {}, check)
      expect(JSON.parse(await readText(body, 1000))).to.include('/%C3%A4')
      expect(seen).to.deep.equal([`${url}/to/%C3%A4`, `${url}/%C3%A4`])
      const error = await client.follow(`${url}${'/to'.repeat(7)}/x`, {}).catch(codeOf)
      expect(error).to.equal('too_many_redirects')
    })
  })

  describe('over TLS', () => {
    let secure: TlsServer
    let url: string
    let ca: string
    before(async () => {
      const authority = await TestAuthority.create()
      const { certPem, keyPem } = await authority.issue('good.test')
      ca = authority.rootPem
      secure = createTlsServer({ cert: certPem, key: keyPem }, (socket) => {
        socket.on('error', () => undefined)
        socket.once('data', () => closing('200 OK\r\nServer: x', large)(socket))
      })
      secure.listen(0, '127.0.0.1')
      await once(secure, 'listening')
      url = `https://127.0.0.1:${(secure.address() as AddressInfo).port}/`
    })
    after(() => new Promise((resolve) => secure.close(resolve)))

    for (const [what, tls, outcome] of [
      ['accept a certificate of a known CA', { servername: 'good.test' }, large.toString()],
      ['refuse a certificate for another name', { servername: 'bad.test' }, 'ERR_TLS_CERT_ALTNAME_INVALID'],
      ['refuse a certificate for another address', {}, 'ERR_TLS_CERT_ALTNAME_INVALID'],
      ['refuse a certificate of an unknown CA', { servername: 'good.test', ca: undefined }, /SELF_SIGNED|UNABLE/],
    ] as const)
      it(what, async () => {
        open({ tls: { ca, ...tls } })
        const found = await ask(url)
        if (outcome instanceof RegExp) expect(found).to.match(outcome)
        else expect(found === outcome, found.slice(0, 100)).to.equal(true)
      })
  })
})
