import { randomUUID } from 'node:crypto'
import { createServer, STATUS_CODES, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type Koa from 'koa'
import type { Logger } from 'pino'
import { ConnectionGuard } from '../shared/connection-guard.js'

export interface HttpTimeouts {
  /** A client that is slower than this is hung up on. */
  readonly headersMs: number
  readonly requestMs: number
  readonly keepAliveMs: number
  readonly checkEveryMs: number
}

const defaultTimeouts: HttpTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  // Longer than usual proxies keep theirs, so that it is not we who close under a request.
  keepAliveMs: 65_000,
  checkEveryMs: 2_000,
}

/** Connections on which no request has come yet; the headers' time is theirs, too. */
const silent = { unproven: 2048, unprovenPerSource: 256 }

export interface HttpServer {
  /** http://host:port */
  readonly url: string
  /** Takes no more connections, lets requests in flight end for at most `graceMs`, then cuts them off. */
  close(graceMs: number): Promise<void>
}

export interface ListenAddress {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
}

export async function startHttpServer(
  app: Koa,
  listen: ListenAddress,
  log: Logger,
  timeouts: HttpTimeouts = defaultTimeouts,
): Promise<HttpServer> {
  const handle = app.callback()
  // Koa handles its own failures; the promise never rejects.
  const callback = (...[request, response]: Parameters<typeof handle>): void => {
    guard.trust(request.socket)
    answers.note(request.socket, response as ServerResponse)
    void handle(request, response)
  }
  const answers = new LastAnswers()
  const guard = new ConnectionGuard({ ...silent, proveWithinMs: timeouts.headersMs + timeouts.checkEveryMs })
  const server = createServer(
    {
      headersTimeout: timeouts.headersMs,
      requestTimeout: timeouts.requestMs,
      keepAliveTimeout: timeouts.keepAliveMs,
      connectionsCheckingInterval: timeouts.checkEveryMs,
      maxHeaderSize: 16_384,
      noDelay: true,
      // The application refuses both itself, with an envelope and a request id.
      requireHostHeader: false,
    },
    callback,
  )
  server.on('connection', (socket: Socket) => guard.watch(socket))
  server.on('checkExpectation', callback)
  server.on('clientError', (error, socket) => refuseMalformed(error, socket, answers.isUnderWay(socket)))
  await listenOn(server, listen)
  const { address, port, family } = server.address() as AddressInfo
  log.info({ address, port }, 'http listening')
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    close: (graceMs) => closeServer(server, graceMs),
  }
}

/** The last answer of each connection: nothing can be said in the middle of one. */
class LastAnswers {
  readonly #last = new WeakMap<Duplex, ServerResponse>()

  note(socket: Duplex, response: ServerResponse): void {
    this.#last.set(socket, response)
  }

  isUnderWay(socket: Duplex): boolean {
    const last = this.#last.get(socket)
    // Of a request that is still arriving what is refused is a part.
    return last !== undefined && !last.writableFinished && (last.headersSent || last.req.complete)
  }
}

function listenOn(server: Server, listen: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ ...listen }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

const idleCheckMs = 50

function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    // A connection whose last answer has gone out stays open for another request, which must not come.
    const sweep = setInterval(() => server.closeIdleConnections(), idleCheckMs)
    server.close(() => {
      clearTimeout(cut)
      clearInterval(sweep)
      resolve()
    })
  })
}

const malformed: Readonly<Record<string, [number, string, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'the headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'the request did not arrive in time'],
}

/** What Node's parser refuses never becomes a request; it is answered here in the same form. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex, isUnderWay: boolean): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isUnderWay) return void socket.destroy()
  const [status, code, message] = malformed[error.code ?? ''] ?? [400, 'invalid_request', 'malformed HTTP']
  const requestId = randomUUID()
  const body = JSON.stringify({ success: false, message, code, request_id: requestId })
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${requestId}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}
