import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import type { Logger } from 'pino'
import { BerthError, toBerthError, type ErrorKind } from '../../shared/errors.js'
import {
  gatewayJoinPath,
  installReportPath,
  joinPath,
  splitHostPort,
  type GatewayJoinRequest,
  type JoinAnswer,
  type JoinRequest,
} from '../../shared/join-token.js'
import type { Authority } from '../pki/authority.js'
import { isLeafRenewalDue } from '../pki/gateway-leaf.js'
import { isBrokenOff } from '../sockets/broken-off.js'
import { checkHostHeader } from '../sockets/host-header.js'
import { listenOn, type ListeningSockets } from '../sockets/listening-sockets.js'
import { ConnectionGuard } from '../../shared/connection-guard.js'
import { sourceOf } from '../../shared/source-address.js'
import { perMinute, RateLimit, rateLimited } from '../../shared/rate-limit.js'
import type { Installer } from './installer.js'

const installPath = '/install'
const packagesPath = '/packages/'
const maxBodyBytes = 16 * 1024
const attemptsPerMinute = 30
const requestTimeoutMs = 10_000
/** Time limit in ms for the request of a client that connected just before `close`. */
const firstRequestMs = 1000
/** Limits of connections that have not sent a complete request. */
const strangers = { unproven: 256, unprovenPerSource: 32, proveWithinMs: requestTimeoutMs }

const statusOfKind: Partial<Record<ErrorKind, number>> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  exhausted: 429,
  unavailable: 503,
}

export interface JoinServerOptions {
  readonly authority: Authority
  readonly leafLifetimeMs: number
  readonly log: Logger
  /** Private key of the endpoint (PKCS #8 in PEM). The command for new hosts contains a pin of it. */
  readonly privateKeyPem: string
  readonly installer: Installer
  /** Keeps the listening socket open while the service restarts. If absent, the socket closes when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /**
   * Checks the token, marks it as used, and returns a certificate for the key of the request.
   * @param source address from which the request came
   */
  readonly join: (request: JoinRequest, source: string) => Promise<JoinAnswer>
  /** Answers a server that joins as a gateway. Absent: no gateway can join. */
  readonly joinGateway?: ((request: GatewayJoinRequest) => Promise<object>) | undefined
}

/**
 * HTTPS server with the installation script, the packages and the first certificate of new hosts. Its certificate is
 * issued by the private CA. Agents compare the CA with the fingerprint in their token.
 */
export class JoinServer {
  readonly #guard = new ConnectionGuard(strangers)
  readonly #limit = new RateLimit(perMinute(attemptsPerMinute))
  #renewTimer: NodeJS.Timeout | undefined

  private constructor(
    private readonly options: JoinServerOptions,
    private readonly server: Server,
  ) {}

  /** @param listen address as host:port; port 0 selects a free port */
  static async start(listen: string, options: JoinServerOptions): Promise<JoinServer> {
    const server = createServer({ minVersion: 'TLSv1.3', requestTimeout: requestTimeoutMs })
    Object.assign(server, { headersTimeout: requestTimeoutMs, keepAliveTimeout: 1000 })
    const join = new JoinServer(options, server)
    server.on('connection', (socket: Socket) => join.#guard.watch(socket))
    // With one request per connection, a client cannot delay others by pipelining requests.
    server.maxRequestsPerSocket = 1
    server.on('request', (request, response) => void join.#answer(request, response))
    server.on('tlsClientError', ({ message }) =>
      options.log.debug({ reason: message }, 'join: the TLS handshake with a joining host failed'),
    )
    server.on('clientError', (_error, socket) => socket.destroy())
    await join.#renew()
    await join.#listen(listen)
    return join
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }

  /** Accepts no more connections. Waits up to `graceMs` for requests in progress, and then aborts them. */
  async close(graceMs = 0): Promise<void> {
    clearInterval(this.#renewTimer)
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()))
    const strangers = setTimeout(() => this.#guard.close(), Math.min(graceMs, firstRequestMs))
    const cut = setTimeout(() => this.server.closeAllConnections(), graceMs)
    await closed
    for (const timer of [strangers, cut]) clearTimeout(timer)
  }

  async #listen(listen: string): Promise<void> {
    const { host, port } = listen.endsWith(':0') ? { host: listen.slice(0, -2), port: 0 } : splitHostPort(listen)
    const { sockets } = this.options
    await (sockets ? sockets.listen(this.server, { host, port }) : listenOn(this.server, { host, port }))
    this.server.on('error', (error) => this.options.log.error({ error }, 'the listener for joining agents failed'))
  }

  /** Gets a new certificate, from the present CA. */
  renew(): Promise<void> {
    return this.#renew()
  }

  async #renew(): Promise<void> {
    const { authority, leafLifetimeMs, log } = this.options
    const leaf = await authority.issue({ role: 'join' }, leafLifetimeMs, this.options.privateKeyPem)
    this.server.setSecureContext({
      // The CA's certificate is also sent, because a joining agent knows only the fingerprint of the CA.
      cert: leaf.certificatePem + authority.caPem,
      key: leaf.privateKeyPem,
      minVersion: 'TLSv1.3',
    })
    clearInterval(this.#renewTimer)
    this.#renewTimer = setInterval(
      () => {
        if (!isLeafRenewalDue(leaf, leafLifetimeMs)) return
        this.#renew().catch((error: unknown) =>
          log.error({ error }, 'join: the certificate of the listener for joining agents could not be renewed'),
        )
      },
      Math.min(5000, leafLifetimeMs / 10),
    ).unref()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const address = request.socket.remoteAddress ?? ''
    const { log } = this.options
    try {
      checkHostHeader(request)
      await this.#handle(request, response, address)
    } catch (error) {
      if (isBrokenOff(error)) return log.debug({ address }, 'join: the client closed the connection')
      const known = toBerthError(error, 'the join failed: see the log of the gateway')
      log.warn({ address, error }, 'the join of an agent was refused')
      send(response, statusOfKind[known.kind] ?? 500, { code: known.code, message: known.message })
    }
  }

  async #handle(request: IncomingMessage, response: ServerResponse, address: string): Promise<void> {
    const { installer } = this.options
    const { method, url = '' } = request
    if (method === 'POST') return send(response, 200, await this.#handlePost(request, url, address))
    if (method === 'GET' && url === installPath) {
      response.writeHead(200, { 'content-type': 'text/x-shellscript', connection: 'close' })
      response.end(await installer.script())
    } else if (method === 'GET' && url.startsWith(packagesPath)) {
      await this.#sendPackage(request, response, url.slice(packagesPath.length))
    } else throw pageNotFound()
  }

  /** @returns the content of the answer */
  async #handlePost(request: IncomingMessage, path: string, address: string): Promise<object> {
    const { installer, join, joinGateway, log } = this.options
    if (path === joinPath) {
      const answer = await this.#answerBody(request, address, (body) => join(parseJoin(body), unmapped(address)))
      log.info({ address, host: answer.host_id }, 'a host has joined')
      return answer
    }
    if (path === gatewayJoinPath && joinGateway) {
      const answer = await this.#answerBody(request, address, (body) => joinGateway(parseGatewayJoin(body)))
      log.info({ address }, 'a gateway has joined')
      return answer
    }
    if (path !== installReportPath) throw pageNotFound()
    return this.#answerBody(request, address, (body) => installer.report(body))
  }

  async #answerBody<T>(
    request: IncomingMessage,
    address: string,
    handle: (body: Readonly<Record<string, unknown>>) => Promise<T>,
  ): Promise<T> {
    return this.#limited(address, async () => {
      const body = await readBody(request)
      this.#guard.trust(request.socket)
      return handle(parseBody(body))
    })
  }

  /** Handles a request with a token. A failed request counts towards the limit of attempts from its address. */
  async #limited<T>(address: string, handle: () => Promise<T>): Promise<T> {
    const source = sourceOf(address)
    const waitMs = this.#limit.take(source)
    if (waitMs > 0) throw rateLimited('too many attempts: wait a minute', waitMs)
    const answer = await handle()
    this.#limit.giveBack(source)
    return answer
  }

  /** Sends a file of the repository to a host with a token. Other clients do not need these large files. */
  async #sendPackage(request: IncomingMessage, response: ServerResponse, name: string): Promise<void> {
    const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const address = request.socket.remoteAddress ?? ''
    const file = await this.#limited(address, () => this.options.installer.openPackage(token, name))
    this.#guard.trust(request.socket)
    response.writeHead(200, { 'content-length': file.size, connection: 'close' })
    await pipeline(file.content, response)
  }
}

const pageNotFound = (): BerthError => new BerthError('not_found', 'not_found', 'not found')

/** Converts an IPv4-mapped IPv6 address to IPv4. */
function unmapped(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '')
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBodyBytes) throw new BerthError('invalid', 'payload_too_large', 'the request is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parseBody(text: string): Readonly<Record<string, unknown>> {
  try {
    const parsed = JSON.parse(text) as unknown
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {}
  } catch {
    throw new BerthError('invalid', 'invalid_json', 'the request is not JSON') // without the cause, which would quote the token
  }
}

function parseJoin({ token, csr, now_ms, port }: Readonly<Record<string, unknown>>): JoinRequest {
  if (typeof token !== 'string' || typeof csr !== 'string')
    throw new BerthError('invalid', 'missing_field', 'token and csr are required')
  return {
    token,
    csr,
    ...(typeof now_ms === 'number' && { now_ms }),
    ...(isPort(port) && { port }),
  }
}

function parseGatewayJoin({ token, public_key, machine }: Readonly<Record<string, unknown>>): GatewayJoinRequest {
  if (typeof token !== 'string' || typeof public_key !== 'string' || typeof machine !== 'string')
    throw new BerthError('invalid', 'missing_field', 'token, public_key and machine are required')
  return { token, public_key, machine: machine.slice(0, 255) }
}

const isPort = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) < 65_536

function send(response: ServerResponse, status: number, body: object): void {
  if (response.destroyed) return
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(JSON.stringify(body))
}
