import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { LookupFunction, Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { TLSSocket, type ConnectionOptions } from 'node:tls'
import { version } from './version.js'

export interface OutboundTimeouts {
  /** Timeout in ms of the name lookup, the connection and the TLS handshake together. */
  readonly connectMs: number
  /** Timeout in ms from the established connection to the end of the answer's headers. */
  readonly headersMs: number
  /** Longest pause in ms between two bytes of a body while it is read. A stalled body fails within twice this time. */
  readonly bodyMs: number
}

export interface OutboundOptions {
  readonly timeouts: OutboundTimeouts
  /** Replaces the system's lookup of host names. Not called for addresses in URLs (see outbound-targets.ts). */
  readonly lookup?: LookupFunction
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'servername' | 'checkServerIdentity' | 'minVersion'>
  /** Maximum number of connections per origin. Further requests wait. Default: unlimited. */
  readonly maxConnections?: number
  /**
   * False: each request uses a new connection. The server may close an idle connection at the moment of a request, which
   * then fails. Default: true.
   */
  readonly keepAlive?: boolean
  /** Maximum bytes of all headers of an answer. Default: Node's limit of 16 KiB. */
  readonly maxHeaderBytes?: number
}

export interface OutboundOrder {
  /** Method of the request. Default: GET. */
  readonly method?: string
  /** Headers of the request. The default `user-agent` is `berth/` and the version of the product. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
  /** Aborts the request, even while its answer is being read. The request then fails with the signal's reason. */
  readonly signal?: AbortSignal
}

export interface OutboundAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The caller must read the body to its end or destroy it. An incomplete body ends with an error. */
  readonly body: Readable
}

type OutboundCode =
  | 'connect_timeout'
  | 'headers_timeout'
  | 'body_timeout'
  | 'too_many_redirects'
  | 'answer_missing'
  | 'answer_cut'
  | 'answer_too_large'
  | 'client_closed'

/** A failure that this client detects. Errors of the system keep their own codes, such as ECONNREFUSED. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  constructor(
    readonly code: OutboundCode,
    message: string,
  ) {
    super(message)
  }
}

/** Common servers close idle connections after 5 s. This client closes them earlier. */
const keepAliveMs = 4000
const mostRedirects = 5

/** Sends HTTP requests to other servers. A server can answer anything, but a failure affects only its own request. */
export class OutboundClient {
  readonly #http: HttpAgent
  readonly #https: HttpsAgent
  readonly #exchanges = new Set<Exchange>()

  constructor(private readonly options: OutboundOptions) {
    const { keepAlive = true, lookup, maxConnections = Infinity, tls } = options
    const common = {
      keepAlive,
      timeout: keepAliveMs,
      maxSockets: maxConnections,
      ...(lookup && { lookup }),
    }
    this.#http = new HttpAgent(common)
    this.#https = new HttpsAgent({ ...common, ...tls })
  }

  /**
   * Sends one request. Redirects are ordinary answers.
   * @throws {OutboundError} `connect_timeout`, `headers_timeout`, `answer_missing`, `client_closed`; errors of `lookup`
   * and the system; the signal's reason
   */
  async send(url: URL | string, order: OutboundOrder = {}): Promise<OutboundAnswer> {
    order.signal?.throwIfAborted()
    const request = this.#open(new URL(url), order)
    const exchange = new Exchange(request, this.options.timeouts, order.signal)
    this.#exchanges.add(exchange)
    request.once('close', () => this.#exchanges.delete(exchange))
    // Converts text to a Buffer, because Node would also encode the headers as UTF-8 if `end` got a string.
    request.end(typeof order.body === 'string' ? Buffer.from(order.body) : order.body)
    return exchange.answer
  }

  /**
   * Like `send`, but follows at most five redirects.
   * @param check parses the URL of each redirect and throws if it is not permitted
   * @throws {OutboundError} as `send`, and also `too_many_redirects`
   */
  async follow(
    url: URL | string,
    order: OutboundOrder,
    check: (url: string) => URL = (to) => new URL(to),
  ): Promise<OutboundAnswer> {
    let at = new URL(url)
    for (let redirects = 0; redirects <= mostRedirects; redirects++) {
      const answer = await this.send(at, order)
      const location = locationOf(answer)
      if (location === undefined) return answer
      answer.body.destroy()
      at = check(new URL(location, at).href)
    }
    throw new OutboundError('too_many_redirects', `more than ${mostRedirects} redirects`)
  }

  /** Aborts all requests in progress. */
  close(): void {
    for (const exchange of this.#exchanges)
      exchange.fail(new OutboundError('client_closed', 'the HTTP client was closed'))
    this.#http.destroy()
    this.#https.destroy()
  }

  #open(url: URL, { method = 'GET', headers = {}, body }: OutboundOrder): ClientRequest {
    const isSecure = url.protocol === 'https:'
    // Node adds `content-length` automatically only for some methods.
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
    return (isSecure ? httpsRequest : httpRequest)(url, {
      method,
      headers: { 'user-agent': `berth/${version}`, ...length, ...headers },
      agent: isSecure ? this.#https : this.#http,
      ...(this.options.maxHeaderBytes && { maxHeaderSize: this.options.maxHeaderBytes }),
    })
  }
}

/** One request and its answer. Handles every failure from the sending of the request to the end of the answer. */
class Exchange {
  readonly answer: Promise<OutboundAnswer>
  #reject: (error: Error) => void = () => undefined
  #timer: NodeJS.Timeout | undefined
  #message: IncomingMessage | undefined
  readonly #abort = (): void => this.fail(asError(this.signal?.reason))

  constructor(
    private readonly request: ClientRequest,
    private readonly timeouts: OutboundTimeouts,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.answer = new Promise((resolve, reject) => {
      this.#reject = reject
      request.once('response', (message) => resolve(this.#begin(message)))
    })
    request.once('socket', (socket) => this.#timeAnswer(socket))
    request.on('error', (error) => this.#break(error))
    request.once('close', () => this.#end())
    signal?.addEventListener('abort', this.#abort)
  }

  /** Fails the request. Rejects the promise here, as `request.destroy` emits nothing before a connection exists. */
  fail(error: Error): void {
    this.#reject(error)
    if (this.#message) this.#message.destroy(error)
    else this.request.destroy(error)
    this.#end()
  }

  /** Handles the end of the connection. Data that was already received is valid if it is the complete answer. */
  #break(error: Error): void {
    if (!this.#message?.complete) this.fail(withMessage(error))
  }

  #end(): void {
    clearTimeout(this.#timer)
    this.signal?.removeEventListener('abort', this.#abort)
    this.#reject(new OutboundError('answer_missing', 'the connection ended without an answer'))
  }

  #timeAnswer(socket: Socket): void {
    const { connectMs, headersMs } = this.timeouts
    const ask = (): void => this.#expire(headersMs, () => this.fail(timeout('headers_timeout', 'no answer', headersMs)))
    if (!socket.connecting) return ask() // the request uses an existing connection
    this.#expire(connectMs, () => this.fail(timeout('connect_timeout', 'no connection was established', connectMs)))
    socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', ask)
  }

  #begin(message: IncomingMessage): OutboundAnswer {
    const { socket, headers } = message
    const cut = (): void =>
      void (
        message.complete ||
        message.destroy(new OutboundError('answer_cut', 'the connection ended in the middle of the answer'))
      )
    this.#message = message
    message.on('error', () => undefined) // without a listener, Node would throw; readers of the body get the error
    socket.prependOnceListener('close', cut) // runs before Node's own handler, which would report "aborted"
    message.once('close', () => socket.off('close', cut))
    this.#watch(message, socket.bytesRead)
    return { status: message.statusCode ?? 0, headers, body: message }
  }

  /** Fails a body when no more bytes arrive. Time in which the caller leaves received bytes unread does not count. */
  #watch(message: IncomingMessage, seenBytes: number): void {
    const { bodyMs } = this.timeouts
    this.#expire(bodyMs, () => {
      if (message.complete) return
      const { bytesRead } = message.socket
      if (bytesRead > seenBytes || message.readableLength > 0) return this.#watch(message, bytesRead)
      this.fail(timeout('body_timeout', 'no further part of the answer arrived', bodyMs))
    })
  }

  #expire(ms: number, onExpiry: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(onExpiry, ms)
  }
}

/**
 * Reads a body to its end as UTF-8. Invalid sequences become U+FFFD.
 * @throws {OutboundError} `answer_too_large`, `answer_cut`, `body_timeout`, `client_closed`; the signal's reason
 */
export async function readText(body: Readable, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new OutboundError('answer_too_large', `the answer is larger than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** Discards a body so that its connection can be reused. A body longer than `maxBytes` is cut off. Never throws. */
export async function discardBody(body: Readable, maxBytes: number): Promise<void> {
  let leftBytes = maxBytes
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      leftBytes -= chunk.length
      if (leftBytes < 0) return
    }
  } catch {
    // The body is discarded, so a missing end does not matter.
  }
}

function locationOf({ status, headers: { location } }: OutboundAnswer): string | undefined {
  if (![301, 302, 303, 307, 308].includes(status) || location === undefined) return undefined
  return Buffer.from(location, 'latin1').toString() // the header is UTF-8 text whose bytes Node reads as Latin-1
}

function timeout(code: OutboundCode, what: string, ms: number): OutboundError {
  return new OutboundError(code, `${what} within ${ms / 1000} s`)
}

/** Adds a message to an AggregateError, which has one error for each address that could not be reached. */
function withMessage(error: Error): Error {
  if (error instanceof AggregateError) error.message ||= error.errors.map(({ message }: Error) => message).join(', ')
  return error
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error('aborted', { cause: reason })
}
