import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Logger } from 'pino'
import { BerthError, toBerthError, type ErrorKind } from '../../shared/errors.js'
import { joinPath, splitHostPort, type JoinAnswer, type JoinRequest } from '../../shared/join-token.js'
import type { Authority } from '../pki/authority.js'
import { isLeafRenewalDue } from '../pki/gateway-leaf.js'
import { isBrokenOff } from '../sockets/broken-off.js'
import { checkHostHeader } from '../sockets/host-header.js'
import { ConnectionGuard } from '../../shared/connection-guard.js'
import { sourceOf } from '../../shared/source-address.js'
import { perMinute, RateLimit, rateLimited } from '../../shared/rate-limit.js'

const maxBodyBytes = 16 * 1024
const attemptsPerMinute = 30
const requestTimeoutMs = 10_000
/** Bounds on connections that have not sent a complete request. */
const strangers = { unproven: 256, unprovenPerSource: 32, proveWithinMs: requestTimeoutMs }

const statusOfKind: Partial<Record<ErrorKind, number>> = {
  invalid: 400,
  unauthenticated: 401,
  not_found: 404,
  conflict: 409,
  exhausted: 429,
  unavailable: 503,
}

export interface JoinServerOptions {
  readonly authority: Authority
  readonly leafLifetimeMs: number
  readonly log: Logger
  /** Checks and uses up the token; returns a certificate for the request's key. */
  join(request: JoinRequest): Promise<JoinAnswer>
}

/**
 * Serves agents their first certificate, and nothing else: HTTPS with a certificate of the private CA, which agents
 * check against the fingerprint in their token.
 */
export class JoinServer {
  readonly #guard = new ConnectionGuard(strangers)
  readonly #limit = new RateLimit(perMinute(attemptsPerMinute))
  #renewTimer: NodeJS.Timeout | undefined

  private constructor(
    private readonly options: JoinServerOptions,
    private readonly server: Server,
  ) {}

  /** @param listen host:port; port 0 picks one */
  static async start(listen: string, options: JoinServerOptions): Promise<JoinServer> {
    const server = createServer({ minVersion: 'TLSv1.3', requestTimeout: requestTimeoutMs })
    Object.assign(server, { headersTimeout: requestTimeoutMs, keepAliveTimeout: 1000 })
    const join = new JoinServer(options, server)
    server.on('connection', (socket: Socket) => join.#guard.watch(socket))
    // An agent sends one request. More of one connection would be handled at once, before anybody else's turn.
    server.maxRequestsPerSocket = 1
    server.on('request', (request, response) => void join.#answer(request, response))
    server.on('tlsClientError', ({ message }) => options.log.debug({ reason: message }, 'join: TLS failed'))
    server.on('clientError', (_error, socket) => socket.destroy())
    await join.#renew()
    await join.#listen(listen)
    return join
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }

  async close(): Promise<void> {
    clearInterval(this.#renewTimer)
    this.server.closeAllConnections()
    this.#guard.close()
    await new Promise<void>((resolve) => this.server.close(() => resolve()))
  }

  async #listen(listen: string): Promise<void> {
    const { host, port } = listen.endsWith(':0') ? { host: listen.slice(0, -2), port: 0 } : splitHostPort(listen)
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject)
      this.server.listen({ host, port }, () => resolve())
    })
    this.server.on('error', (error) => this.options.log.error({ error }, 'join endpoint'))
  }

  async #renew(): Promise<void> {
    const { authority, leafLifetimeMs, log } = this.options
    const leaf = await authority.issue({ role: 'join' }, leafLifetimeMs)
    this.server.setSecureContext({
      // Sends the CA as well: a joining agent only knows its fingerprint.
      cert: leaf.certificatePem + authority.caPem,
      key: leaf.privateKeyPem,
      minVersion: 'TLSv1.3',
    })
    clearInterval(this.#renewTimer)
    this.#renewTimer = setInterval(
      () => {
        if (!isLeafRenewalDue(leaf, leafLifetimeMs)) return
        this.#renew().catch((error: unknown) => log.error({ error }, 'join: certificate not renewed'))
      },
      Math.min(5000, leafLifetimeMs / 10),
    ).unref()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const address = request.socket.remoteAddress ?? ''
    try {
      const answer = await this.#handle(request, address)
      this.options.log.info({ address, host: answer.host_id }, 'host joined')
      send(response, 200, answer)
    } catch (error) {
      if (isBrokenOff(error)) return this.options.log.debug({ address }, 'join: the client closed the connection')
      const known = toBerthError(error, 'join failed; the gateway log says why')
      this.options.log.warn({ address, error }, 'join refused')
      send(response, statusOfKind[known.kind] ?? 500, { code: known.code, message: known.message })
    }
  }

  async #handle(request: IncomingMessage, address: string): Promise<JoinAnswer> {
    checkHostHeader(request)
    if (request.method !== 'POST' || request.url !== joinPath)
      throw new BerthError('not_found', 'not_found', 'not found')
    const source = sourceOf(address)
    const waitMs = this.#limit.take(source)
    if (waitMs > 0) throw rateLimited('too many attempts: wait a minute', waitMs)
    const body = await readBody(request)
    this.#guard.trust(request.socket)
    const answer = await this.options.join(parseRequest(body))
    this.#limit.giveBack(source)
    return answer
  }
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

function parseRequest(body: string): JoinRequest {
  let parsed: Partial<Record<keyof JoinRequest, unknown>> | null
  try {
    parsed = JSON.parse(body) as Partial<Record<keyof JoinRequest, unknown>> | null
  } catch {
    throw new BerthError('invalid', 'invalid_json', 'the request is not JSON') // without the cause, which would quote the token
  }
  const { token, csr, now_ms } = parsed ?? {}
  if (typeof token !== 'string' || typeof csr !== 'string')
    throw new BerthError('invalid', 'missing_field', 'token and csr are required')
  return { token, csr, ...(typeof now_ms === 'number' && { now_ms }) }
}

function send(response: ServerResponse, status: number, body: object): void {
  if (response.destroyed) return
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(JSON.stringify(body))
}
