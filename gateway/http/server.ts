import { randomUUID } from 'node:crypto'
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerOptions } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type Koa from 'koa'
import type { Logger } from 'pino'
import { ConnectionGuard } from '../../shared/connection-guard.js'
import { PipelinedRequests, type RequestHandler } from './pipelined-requests.js'
import { requestClass, watchOffers } from './upgrade-offers.js'

export interface HttpTimeouts {
  /** A client that takes longer for its headers is disconnected. */
  readonly headersMs: number
  readonly requestMs: number
  readonly keepAliveMs: number
  readonly checkEveryMs: number
}

export const defaultTimeouts: HttpTimeouts = {
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
  /** Accepts no more connections, waits up to `graceMs` for requests in progress, then aborts them. */
  close(graceMs: number): Promise<void>
}

export interface ListenAddress {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

/** Handles connections of requests that HTTP does not answer. */
export interface Upgrades {
  matches(request: IncomingMessage): boolean
  /** Never rejects. @param head data after the request */
  answer(request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void>
}

/** The parts of a server. */
export interface Served {
  readonly app: Koa
  readonly upgrades: Upgrades
}

export async function startHttpServer(
  served: Served,
  listen: ListenAddress,
  log: Logger,
  timeouts: HttpTimeouts = defaultTimeouts,
): Promise<HttpServer> {
  const handlers = handlersOf(served)
  const server = createServer(httpOptions(timeouts, handlers))
  serveRequests(server, handlers, timeouts)
  await listenOn(server, listen)
  const { address, port, family } = server.address() as AddressInfo
  log.info({ address, port }, 'http listening')
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    close: (graceMs) => closeServer(server, graceMs),
  }
}

/** Options of every server that strangers reach. */
export function httpOptions(timeouts: HttpTimeouts, { requests, upgrades }: Handlers): ServerOptions {
  return {
    IncomingMessage: requestClass({
      wants: (request) => upgrades?.matches(request) ?? false,
      isExcess: ({ socket }) => requests.isFull(socket),
    }),
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: timeouts.checkEveryMs,
    maxHeaderSize: 16_384,
    noDelay: true,
    // The application refuses both itself, with an envelope and a request id.
    requireHostHeader: false,
  }
}

export interface Handlers {
  readonly requests: PipelinedRequests
  /** Absent: offers of an upgrade are ignored. */
  readonly upgrades?: Upgrades
}

/** @param handle never throws */
export function pipelinedHandlers(handle: RequestHandler): Handlers {
  return { requests: new PipelinedRequests(handle) }
}

export function handlersOf({ app, upgrades }: Served): Handlers {
  const handle = app.callback()
  // Koa handles its own failures, so the promise never rejects.
  return { ...pipelinedHandlers((...exchange) => void handle(...exchange)), upgrades }
}

/** Has requests handled, connections without one bounded, and malformed ones refused in the usual form. */
export function serveRequests(
  server: Server | HttpsServer,
  { requests, upgrades }: Handlers,
  timeouts: HttpTimeouts,
): void {
  const guard = new ConnectionGuard({ ...silent, proveWithinMs: timeouts.headersMs + timeouts.checkEveryMs })
  detached.set(server, new Set())
  const callback: RequestHandler = (request, response) => {
    guard.trust(request.socket)
    requests.enter(request, response)
  }
  server.on('request', callback)
  server.on('connection', (socket: Socket) => guard.watch(socket))
  server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) =>
    watchOffers(socket, () => requests.endAfterAnswers(socket)),
  )
  server.on('checkExpectation', callback)
  server.on('clientError', (error, socket) => {
    if (!requests.isEnding(socket)) refuseMalformed(error, socket, requests.isAnswering(socket))
  })
  server.on('upgrade', (request, connection, head) => {
    // An upgrade behind unanswered requests cannot be answered in order; excess requests end here, too.
    if (requests.isBusy(connection)) {
      detach(server, connection)
      return requests.endAfterAnswers(connection)
    }
    if (!upgrades) return void connection.destroy()
    guard.trust(request.socket)
    void upgrades.answer(request, connection, head)
  })
}

/** Longer than any answer but a stream takes. */
const answersWithinMs = 180_000

/** Connections that Node's server no longer knows, since their requests were presented to it as an upgrade. */
const detached = new WeakMap<Server | HttpsServer, Set<Duplex>>()

/** Bounds a connection that waits for its last answers. Nothing more is read from it. */
function detach(server: Server | HttpsServer, connection: Duplex): void {
  const end = (): void => void connection.destroy()
  const timer = setTimeout(end, answersWithinMs).unref()
  const connections = detached.get(server)
  connections?.add(connection)
  connection.on('error', end).once('close', () => {
    clearTimeout(timer)
    connections?.delete(connection)
  })
}

/** @throws the error of listen(2) */
export function listenOn(server: Server | HttpsServer, listen: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ ...listen }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

const idleCheckMs = 50

/** Accepts no more connections, waits up to `graceMs` for requests in progress, then aborts them. */
export function closeServer(server: Server | HttpsServer, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      server.closeAllConnections()
      for (const connection of detached.get(server) ?? []) connection.destroy()
    }, graceMs)
    // A connection stays open for another request after its last response, but none is accepted any more.
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

/** Answers data that Node's parser refuses, and that never becomes a request, in the usual form. */
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
