import { randomUUID } from 'node:crypto'
import { createServer, STATUS_CODES, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type Koa from 'koa'
import type { Logger } from 'pino'
import { ConnectionGuard } from '../shared/connection-guard.js'

export interface HttpTimeouts {
  /** A client that takes longer for its headers is disconnected. */
  readonly headersMs: number
  readonly requestMs: number
  readonly keepAliveMs: number
  readonly checkEveryMs: number
}

const defaultTimeouts: HttpTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  // Longer than usual proxies keep idle connections, so that we do not close one while a request is coming.
  keepAliveMs: 65_000,
  checkEveryMs: 2_000,
}

/** Bounds on connections without a request so far; `headersMs` applies to them, too. */
const silent = { unproven: 2048, unprovenPerSource: 256 }

export interface HttpServer {
  /** http://host:port */
  readonly url: string
  /** Accepts no more connections, waits up to `graceMs` for requests in progress, then cuts them off. */
  close(graceMs: number): Promise<void>
}

export interface ListenAddress {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

export async function startHttpServer(
  app: Koa,
  listen: ListenAddress,
  log: Logger,
  timeouts: HttpTimeouts = defaultTimeouts,
): Promise<HttpServer> {
  const handle = app.callback()
  // Koa handles its own failures, so the promise never rejects.
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

/** Each connection's last response, as nothing else can be sent during one. */
class LastAnswers {
  readonly #last = new WeakMap<Duplex, ServerResponse>()

  note(socket: Duplex, response: ServerResponse): void {
    this.#last.set(socket, response)
  }

  isUnderWay(socket: Duplex): boolean {
    const last = this.#last.get(socket)
    // While the request is still arriving, the malformed data is a part of it.
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
    // A connection stays open for another request after its last response, but none may come any more.
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

/** Answers what Node's parser refuses, which never becomes a request, in the usual form. */
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
