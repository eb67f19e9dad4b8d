import { once } from 'node:events'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { expect } from 'chai'
import type { Logger } from 'pino'
import { createLogger } from '../../../shared/logging.js'
import { freePort } from '../../support/ports.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

/*
 * Tests that a connection costs as much after many requests as after one. If each request added listeners to the
 * socket, they would block the event loop when the socket closes.
 */

/** Number of requests on one connection. */
const many = 1000
const together = 16
/** Number of requests that the client sends before it waits for answers: one if the request offers an upgrade. */
const togetherOf = (request: string): number => (request.includes('Upgrade: ') ? 1 : together)

/** Number of requests of each kind. Fewer POST requests are sent one by one, because they write audit entries. */
const countOf = (request: string): number => (togetherOf(request) === 1 && request.startsWith('POST') ? 100 : many)

/** Records all server sockets of this process (TLS and the TCP sockets below them), and counts their listeners. */
class ServerSockets {
  readonly #sockets = new Set<Socket>()
  readonly #note = (message: unknown): void => void this.#sockets.add((message as { socket: Socket }).socket)

  start(): void {
    for (const channel of channels) subscribe(channel, this.#note)
  }

  stop(): void {
    for (const channel of channels) unsubscribe(channel, this.#note)
  }

  /**
   * Returns the largest number of listeners of each event at one open socket. `isOf` selects sockets by their ports.
   * The number of sockets does not matter, because a gateway on a busy machine may connect to an agent again.
   */
  listeners(isOf: (port: number, remotePort: number) => boolean): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const socket of [...this.#sockets].filter(
      ({ localPort = 0, remotePort = 0, destroyed }) => !destroyed && isOf(localPort, remotePort),
    ))
      for (const event of socket.eventNames())
        counts[String(event)] = Math.max(counts[String(event)] ?? 0, socket.listenerCount(event))
    return counts
  }
}

const channels = ['net.server.socket', 'http.server.request.start']

/** A client that counts the answers. */
class Talk {
  #answers = 0
  #tail = ''
  #text = ''

  constructor(private readonly socket: Socket) {
    socket.on('error', () => undefined)
    socket.on('data', (chunk: Buffer) => {
      const text = this.#tail + chunk.toString('latin1')
      this.#answers += (text.match(/HTTP\/1\.1 [2-5]\d\d /g) ?? []).length
      this.#text = (this.#text + chunk.toString('latin1')).slice(-10_000)
      this.#tail = text.slice(-12).replace(/HTTP\/1\.1 [2-5]\d\d /, '')
    })
  }

  get answers(): number {
    return this.#answers
  }

  /** The last 10,000 characters of the answers. */
  get text(): string {
    return this.#text
  }

  async send(request: string, count: number): Promise<void> {
    const wanted = this.#answers + count
    const step = togetherOf(request)
    for (let sent = 0; sent < count; sent += step) {
      const next = Math.min(step, count - sent)
      this.socket.write(request.repeat(next))
      await waitFor(() => this.#answers >= wanted - count + sent + next, {
        intervalMs: 1,
        what: `${sent + next} answers; has ${this.#answers}`,
      })
    }
  }
}

const body = (bytes: number): string => `Content-Length: ${bytes}\r\n\r\n${'x'.repeat(bytes)}`
const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n'
const webSocket = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'

/** Requests of all kinds after which a client may send another request on the same connection. */
const requests = (host: string, key: string): Record<string, string> => {
  const head = (line: string): string => `${line} HTTP/1.1\r\nHost: ${host}\r\n`
  const keyed = (line: string): string => `${head(line)}X-API-Key: ${key}\r\n`
  return {
    'a GET': `${head('GET /healthz')}\r\n`,
    'a GET with a key': `${keyed('GET /api/v1/dashboard')}\r\n`,
    'a HEAD': `${keyed('HEAD /api/v1/dashboard')}\r\n`,
    'a HEAD of the event stream': `${keyed('HEAD /api/v1/events')}\r\n`,
    'a GET of an unknown path': `${head('GET /nothing')}\r\n`,
    'a request with an unsupported method': `${head('PUT /api/v1/containers')}\r\n`,
    'a GET with a wrong key': `${head('GET /api/v1/dashboard')}X-API-Key: wrong\r\n\r\n`,
    'a refused upgrade to h2c': `${head('GET /healthz')}${h2c}\r\n`,
    'a refused upgrade with a body': `${keyed('POST /api/v1/containers/none/start')}${h2c}${body(5)}`,
    'an upgrade at an unknown path': `${head('GET /nothing')}${webSocket}\r\n`,
    'a POST with Expect: 100-continue': `${keyed('POST /api/v1/containers')}Expect: 100-continue\r\n${body(2)}`,
    'a POST that is refused': `${keyed('POST /api/v1/containers')}Content-Type: application/json\r\n${body(10)}`,
    'a POST in chunks': `${keyed('POST /api/v1/containers')}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    'a POST with a body of 60 KB': `${keyed('POST /api/v1/containers')}${body(60_000)}`,
  }
}

describe('a TCP connection', function () {
  let gateway: TestGateway
  const sockets = new ServerSockets()
  const lines: string[] = []
  let log: Logger
  const ports = { plain: 0, tls: 0, challenges: 0 }
  before(async () => {
    Object.assign(ports, { tls: await freePort(), challenges: await freePort() })
    const at = (port: number) => ({ host: '127.0.0.1', port })
    const listening = { listen: at(ports.tls), httpListen: at(ports.challenges) }
    sockets.start()
    const destination = { write: (line: string) => void lines.push(line) }
    log = createLogger({ name: 'test', level: 'debug', destination })
    gateway = await startTestGateway({ tls: listening, log })
    ports.plain = Number(new URL(gateway.url).port)
    await gateway.request('PUT', '/ssl', { body: { mode: 'self_signed', target: '127.0.0.1' } })
  })
  after(async () => {
    sockets.stop()
    await gateway.close()
  })

  /** @returns the number of listeners for each event after one request, and after many */
  async function grow(socket: Socket, request: string, port: number): Promise<Record<string, number>[]> {
    const talk = new Talk(socket)
    const isOwn = (one: number, remote: number): boolean => one === port && remote === socket.localPort
    await talk.send(request, 1)
    const first = await settled(isOwn)
    await talk.send(request, countOf(request))
    const last = await settled(isOwn)
    socket.destroy()
    await waitFor(() => Object.keys(sockets.listeners((one) => one === port)).length === 0, {
      what: 'closed',
    })
    return [first, last]
  }

  /** Waits until the number of listeners is stable. The server may remove some after the client has its answer. */
  async function settled(isOf: (port: number, remotePort: number) => boolean): Promise<Record<string, number>> {
    let before = '{}'
    await waitFor(
      () => {
        const now = JSON.stringify(sockets.listeners(isOf))
        const same = now !== '{}' && now === before
        before = now
        return same
      },
      { intervalMs: 50, what: 'listeners stay the same' },
    )
    return sockets.listeners(isOf)
  }

  for (const name of Object.keys(requests('', '')))
    it(`does not gain event listeners when a client repeats a request without TLS (${name})`, async () => {
      const socket = connect({ host: '127.0.0.1', port: ports.plain })
      const [first, last] = await grow(socket, requests('127.0.0.1', gateway.adminKey)[name]!, ports.plain)
      expect(last).to.deep.equal(first)
    })

  for (const name of ['a GET', 'a refused upgrade to h2c', 'an upgrade at an unknown path'])
    it(`does not gain event listeners when a client repeats a request over TLS (${name})`, async () => {
      const socket = connectTls({ host: '127.0.0.1', port: ports.tls, rejectUnauthorized: false })
      const [first, last] = await grow(socket, requests('127.0.0.1', gateway.adminKey)[name]!, ports.tls)
      expect(last).to.deep.equal(first)
    })

  for (const port of ['plain', 'tls'] as const)
    it(`is closed after the answer if more data follows a request with an ignored Upgrade header, ${port === 'tls' ? 'over TLS' : 'without TLS'}`, async () => {
      const offer = requests('x', '')['a refused upgrade to h2c']!
      const { talk, closed } = open(ports[port], offer.repeat(200))
      await closed
      expect(talk.answers).to.equal(1)
      expect(talk.text).to.match(/^HTTP\/1\.1 200 .*\r\nConnection: close\r\n/is)
    })

  for (const port of ['plain', 'tls'] as const)
    it(`is closed after 17 answers if a client sends 1000 requests at once, ${port === 'tls' ? 'over TLS' : 'without TLS'}`, async () => {
      const get = requests('x', '')['a GET']!
      const floods = Array.from({ length: 4 }, () => open(ports[port], get.repeat(1000)))
      const other = open(ports[port], get)
      await waitFor(() => other.talk.answers === 1, { intervalMs: 1, what: 'the answer of another client' })
      await Promise.all(floods.map(({ closed }) => closed))
      for (const { talk } of floods) expect(talk.answers, 'the first and 16 waiting ones').to.equal(17)
      for (const { talk } of floods) expect(talk.text).to.match(/\r\nConnection: close\r\n/i)
      other.socket.destroy()
    })

  it('accepts any number of requests as long as only few are unanswered', async () => {
    const socket = connect({ host: '127.0.0.1', port: ports.plain })
    const talk = new Talk(socket)
    for (let round = 0; round < 20; round++) await talk.send(requests('x', '')['a GET']!, 16)
    socket.destroy()
  })

  /** Connects to a port and sends the text at once. */
  function open(port: number, text: string): { talk: Talk; socket: Socket; closed: Promise<void> } {
    const at = { host: '127.0.0.1', port }
    const socket = port === ports.tls ? connectTls({ ...at, rejectUnauthorized: false }) : connect(at)
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    const talk = new Talk(socket)
    socket.write(text)
    return { talk, socket, closed }
  }

  it('is closed after the first answer if it leads to the port for ACME challenges', async () => {
    for (const head of ['GET / HTTP/1.1\r\nHost: x\r\n\r\n', `GET / HTTP/1.1\r\nHost: x\r\n${h2c}\r\n`]) {
      const socket = connect({ host: '127.0.0.1', port: ports.challenges })
      const closed = once(socket, 'close')
      await new Talk(socket).send(head, 1)
      await closed
    }
  })

  it('does not gain event listeners when the gateway calls an agent many times', async () => {
    const isAgent = (port: number): boolean => !Object.values(ports).includes(port)
    const ask = (): Promise<unknown> => gateway.request('GET', '/routing')
    await ask()
    const first = await settled(isAgent)
    for (let asked = 0; asked < many / 5; asked += 10) await Promise.all(Array.from({ length: 10 }, ask))
    expect(await settled(isAgent)).to.deep.equal(first)
  })

  it('causes no error in the log if the client resets it at any moment', async () => {
    lines.length = 0
    const key = gateway.adminKey
    for (const text of [
      'GET /healthz HTTP/1.1\r\nHo',
      `POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Length: 100\r\n\r\n{`,
      `GET /api/v1/events HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`,
      `GET /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`.repeat(200),
    ])
      for (const port of [ports.plain, ports.tls]) await reset(port, text)
    await waitFor(() => Object.keys(sockets.listeners((one) => one === ports.plain)).length === 0, {
      what: 'closed',
    })
    await gateway.request('GET', '/healthz')
    const loud = lines.filter((line) => /"level":(40|50|60)/.test(line) || line.includes('"stack"'))
    expect(loud).to.deep.equal([])
  })

  /** Sends a text, and resets the connection 50 ms later, so that the server has read the text. */
  async function reset(port: number, text: string): Promise<void> {
    const raw = connect({ host: '127.0.0.1', port })
    const socket = port === ports.tls ? connectTls({ socket: raw, rejectUnauthorized: false }) : raw
    for (const one of [raw, socket]) one.on('error', () => undefined)
    await once(socket, port === ports.tls ? 'secureConnect' : 'connect')
    socket.write(text)
    await new Promise((resolve) => setTimeout(resolve, 50))
    raw.resetAndDestroy()
  }
})
