import { randomUUID } from 'node:crypto'
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerOptions } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type Koa from 'koa'
import type { Logger } from 'pino'
import { ConnectionGuard } from '../../shared/connection-guard.js'
import { listenOn, type ListenAddress, type ListeningSockets } from '../sockets/listening-sockets.js'
import { Connections } from './connections.js'
import { PipelinedRequests, type RequestHandler } from './pipelined-requests.js'
import { isUploading } from './upload.js'
import { requestClass, watchOffers } from './upgrade-offers.js'

export interface HttpTimeouts {
  /** Time limit in ms for receiving the headers of a request. Slower clients are disconnected. */
  readonly headersMs: number
  readonly requestMs: number
  readonly keepAliveMs: number
  readonly checkEveryMs: number
}

export const defaultTimeouts: HttpTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  // Longer than in common proxies. If the gateway closed a connection first, a request of the proxy could be lost.
  keepAliveMs: 65_000,
  checkEveryMs: 2_000,
}

/** Maximum numbers of connections that have not sent a request yet: in total, and from one source. */
const silent = { unproven: 2048, unprovenPerSource: 256 }

export interface HttpServer {
  /** URL of the server: http://host:port */
  readonly url: string
  /** Connections of the server, which are closed when the gateway stops. */
  readonly connections: Pick<Connections, 'drain' | 'close'>
}

export interface HttpServerOptions {
  readonly listen: ListenAddress
  readonly log: Logger
  /** Timeouts of requests and connections. Default: `defaultTimeouts`. */
  readonly timeouts?: HttpTimeouts | undefined
  /** Keeps the listening socket open while the service restarts. If absent, the socket closes when the process ends. */
  readonly sockets?: ListeningSockets | undefined
}

/** Takes over connections whose requests ask for another protocol than HTTP. */
export interface Upgrades {
  matches(request: IncomingMessage): boolean
  /** Answers the request. Never rejects. @param head data that follows the request */
  answer(request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void>
}

/** Handlers of a server: for HTTP requests, and for connections that switch to another protocol. */
export interface ServerHandlers {
  readonly app: Koa
  readonly upgrades: Upgrades
}

export async function startHttpServer(
  served: ServerHandlers,
  { listen, log, timeouts = defaultTimeouts, sockets }: HttpServerOptions,
): Promise<HttpServer> {
  const handlers = handlersOf(served)
  const server = createServer(httpOptions(timeouts, handlers))
  const connections = serveRequests(server, handlers, timeouts)
  await (sockets ? sockets.listen(server, listen) : listenOn(server, listen))
  const { address, port, family } = server.address() as AddressInfo
  log.info({ address, port }, 'the gateway listens for HTTP requests')
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    connections,
  }
}

/** Options of all servers that are reachable from the internet. */
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
    // Node would reject requests without a Host header. The application rejects them with an envelope and a request id.
    requireHostHeader: false,
  }
}

export interface Handlers {
  readonly requests: PipelinedRequests
  /** Handles requests with the header Upgrade, for example for WebSockets. Absent: the header is ignored. */
  readonly upgrades?: Upgrades
}

/** @param handle must not throw */
export function pipelinedHandlers(handle: RequestHandler): Handlers {
  return { requests: new PipelinedRequests(handle) }
}

export function handlersOf({ app, upgrades }: ServerHandlers): Handlers {
  const handle = app.callback()
  // `void` is safe, because the promise of `handle` never rejects. Koa catches all errors.
  return { ...pipelinedHandlers((...exchange) => void handle(...exchange)), upgrades }
}

/** Processes the requests of a server, limits connections without a request, and answers malformed requests. */
export function serveRequests(
  server: Server | HttpsServer,
  { requests, upgrades }: Handlers,
  timeouts: HttpTimeouts,
): Connections {
  const guard = new ConnectionGuard({ ...silent, proveWithinMs: timeouts.headersMs + timeouts.checkEveryMs })
  const connections = new Connections({ server, requests, guard })
  const callback: RequestHandler = (request, response) => {
    guard.trust(request.socket)
    requests.enter(request, response)
  }
  server.on('request', callback)
  server.on('connection', (socket: Socket) => guard.watch(socket))
  server.on(server instanceof HttpsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    connections.add(socket)
    watchOffers(socket, () => requests.endAfterAnswers(socket))
  })
  server.on('checkExpectation', callback)
  server.on('clientError', (error, socket) => {
    // The handler of an upload limits slow clients itself.
    if ((error as NodeJS.ErrnoException).code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUploading(socket)) return
    if (!requests.isEnding(socket)) refuseMalformed(error, socket, requests.isAnswering(socket))
  })
  server.on('upgrade', (request, connection, head) => {
    // The connection cannot switch protocols while earlier requests wait for answers, or if too many requests wait (see
    // `requestClass`).
    if (requests.isBusy(connection)) {
      connections.detach(connection)
      return requests.endAfterAnswers(connection)
    }
    connections.forget(connection)
    if (!upgrades) return void connection.destroy()
    guard.trust(request.socket)
    void upgrades.answer(request, connection, head)
  })
  return connections
}

const malformed: Readonly<Record<string, [number, string, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'the headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'the request did not arrive in time'],
}

/** Answers data that Node's parser rejects, and that the application therefore never gets. */
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
