import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { Logger } from 'pino'
import type { Connections } from '../http/connections.js'
import { defaultTimeouts, httpOptions, pipelinedHandlers, serveRequests } from '../http/server.js'
import { describeError } from '../../shared/errors.js'
import { checkHostHeader } from '../sockets/host-header.js'
import type { ListenAddress, ListeningSockets } from '../sockets/listening-sockets.js'
import type { Challenges } from './challenges.js'
import { listenWide } from './listen.js'

export interface HttpListenerOptions {
  readonly listen: ListenAddress
  readonly challenges: Challenges
  readonly log: Logger
  /** Keeps the listening socket open while the service restarts. If absent, the socket closes when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /** Returns the target of a redirect. `undefined`: no redirect. @param host host in the request, without its port */
  redirectHost(host: string): { readonly host: string; readonly port: number } | undefined
}

/** Server on port 80 for challenges of certificate authorities and redirects to TLS. It ignores the access policy. */
export class HttpListener {
  private constructor(readonly connections: Pick<Connections, 'drain' | 'close'>) {}

  /** @throws {BerthError} `port_conflict`, `port_denied` */
  static async open(options: HttpListenerOptions): Promise<HttpListener> {
    const handlers = pipelinedHandlers((...exchange) => answer(options, ...exchange))
    const server = createServer(httpOptions(defaultTimeouts, handlers))
    const connections = serveRequests(server, handlers, defaultTimeouts)
    await listenWide(server, options)
    server.on('error', (err) => options.log.error({ err }, 'the HTTP listener failed'))
    options.log.info(
      { address: server.address() },
      'the gateway listens for ACME challenges and redirects other HTTP requests to HTTPS',
    )
    return new HttpListener(connections)
  }
}

function answer(options: HttpListenerOptions, request: IncomingMessage, response: ServerResponse): void {
  try {
    checkHostHeader(request)
  } catch (error) {
    return send(response, 400, describeError(error))
  }
  const { challenges } = options
  const target = request.url ?? '/'
  const path = target.split('?', 1)[0] ?? '/'
  if (challenges.isAsked(path)) {
    const text = challenges.answerTo(path)
    return text === undefined ? send(response, 404, 'this ACME challenge does not exist') : send(response, 200, text)
  }
  const location = locationOf(options, request.headers.host ?? '', target)
  if (location === undefined) return send(response, 404, 'not found')
  send(response, 308, 'moved to https', { Location: location })
}

/** URL of a redirect. Only paths are accepted, because a complete URL could lead to another server. */
function locationOf(options: HttpListenerOptions, hostHeader: string, target: string): string | undefined {
  const to = options.redirectHost(hostHeader.replace(/:\d{1,5}$/, ''))
  if (to === undefined) return undefined
  const host = isIP(to.host) === 6 ? `[${to.host}]` : to.host
  const port = to.port === 443 ? '' : `:${to.port}`
  const path = /^\/[\x21-\x7e]*$/.test(target) ? target : '/'
  return `https://${host}${port}${path}`
}

function send(response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    // The body of the request is not read, so the connection must be closed.
    Connection: 'close',
    ...headers,
  })
  response.end(text)
}
