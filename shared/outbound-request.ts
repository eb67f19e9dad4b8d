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

export interface OutboundTimeouts {
  /** Of a connection, from the look-up of the name to the end of the TLS handshake. */
  readonly connectMs: number
  /** From then to the end of the answer's headers. */
  readonly headersMs: number
  /** In which a body has a byte more, while somebody reads it; given up within twice this. */
  readonly bodyMs: number
}

export interface OutboundOptions {
  readonly timeouts: OutboundTimeouts
  /** Of names alone: an address that stands in a URL is checked where the URL is (outbound-targets.ts). */
  readonly lookup?: LookupFunction
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'servername' | 'checkServerIdentity' | 'minVersion'>
  /** Of each origin; what is asked beyond waits. Default: no bound. */
  readonly maxConnections?: number
  /** Of all headers of an answer. Default: Node's, 16 KiB. */
  readonly maxHeaderBytes?: number
}

export interface OutboundOrder {
  /** Default: GET. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
  /** Ends the request, or what is left of the body; its reason is what is thrown. */
  readonly signal?: AbortSignal
}

export interface OutboundAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /**
   * To be read to its end or destroyed. A body that is cut off, shorter than its length or without its last chunk ends
   * with an error.
   */
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

/** Failures of a request that are not the system's own, whose codes are ECONNREFUSED and the like. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  constructor(
    readonly code: OutboundCode,
    message: string,
  ) {
    super(message)
  }
}

/** Below the 5 s after which common servers end a connection that nobody uses. */
const keepAliveMs = 4000
const mostRedirects = 5

/** Asks other servers over HTTP, which may answer anything: whatever they do is an error of the request. */
export class OutboundClient {
  readonly #http: HttpAgent
  readonly #https: HttpsAgent
  readonly #exchanges = new Set<Exchange>()

  constructor(private readonly options: OutboundOptions) {
    const { lookup, maxConnections = Infinity, tls } = options
    const common = {
      keepAlive: true,
      timeout: keepAliveMs,
      maxSockets: maxConnections,
      ...(lookup && { lookup }),
    }
    this.#http = new HttpAgent(common)
    this.#https = new HttpsAgent({ ...common, ...tls })
  }

  /**
   * One request; redirects are answers as others are.
   * @throws {OutboundError} `connect_timeout`, `headers_timeout`, `answer_missing`, `client_closed`; what `lookup` and
   * the system threw; the signal's reason
   */
  async send(url: URL | string, order: OutboundOrder = {}): Promise<OutboundAnswer> {
    order.signal?.throwIfAborted()
    const request = this.#open(new URL(url), order)
    const exchange = new Exchange(request, this.options.timeouts, order.signal)
    this.#exchanges.add(exchange)
    request.once('close', () => this.#exchanges.delete(exchange))
    // Bytes: with a string Node encodes the headers as UTF-8, too.
    request.end(typeof order.body === 'string' ? Buffer.from(order.body) : order.body)
    return exchange.answer
  }

  /**
   * As `send`, at the end of at most five redirects.
   * @param check makes a URL of each that a redirect leads to, and throws where that may not be asked
   * @throws {OutboundError} also `too_many_redirects`
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

  /** Ends what is under way. */
  close(): void {
    for (const exchange of this.#exchanges) exchange.fail(new OutboundError('client_closed', 'the client was closed'))
    this.#http.destroy()
    this.#https.destroy()
  }

  #open(url: URL, { method = 'GET', headers = {}, body }: OutboundOrder): ClientRequest {
    const isSecure = url.protocol === 'https:'
    // Node tells the length of some methods' bodies alone.
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
    return (isSecure ? httpsRequest : httpRequest)(url, {
      method,
      headers: { ...length, ...headers },
      agent: isSecure ? this.#https : this.#http,
      ...(this.options.maxHeaderBytes && { maxHeaderSize: this.options.maxHeaderBytes }),
    })
  }
}

/** One request until its answer has ended, with all that may go wrong meanwhile. */
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

  /** Also a request that waits for a connection, which `destroy` says nothing of until it has one. */
  fail(error: Error): void {
    this.#reject(error)
    if (this.#message) this.#message.destroy(error)
    else this.request.destroy(error)
    this.#end()
  }

  /** What is read from the connection already is good, if it is the whole answer. */
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
    if (!socket.connecting) return ask() // one that is used again
    this.#expire(connectMs, () => this.fail(timeout('connect_timeout', 'no connection', connectMs)))
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
    message.on('error', () => undefined) // who reads it gets it; nobody may
    socket.prependOnceListener('close', cut) // before Node, which calls it "aborted"
    message.once('close', () => socket.off('close', cut))
    this.#watch(message, socket.bytesRead)
    return { status: message.statusCode ?? 0, headers, body: message }
  }

  /** A reader that is slow has bytes to read. */
  #watch(message: IncomingMessage, seenBytes: number): void {
    const { bodyMs } = this.timeouts
    this.#expire(bodyMs, () => {
      if (message.complete) return
      const { bytesRead } = message.socket
      if (bytesRead > seenBytes || message.readableLength > 0) return this.#watch(message, bytesRead)
      this.fail(timeout('body_timeout', 'no more of the answer', bodyMs))
    })
  }

  #expire(ms: number, onExpiry: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(onExpiry, ms)
  }
}

/**
 * The rest of a body as UTF-8; what is no UTF-8 becomes U+FFFD.
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

/** Reads a body that nobody wants, after which its connection can be used again; a longer one is cut off. Never throws. */
export async function discardBody(body: Readable, maxBytes: number): Promise<void> {
  let leftBytes = maxBytes
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      leftBytes -= chunk.length
      if (leftBytes < 0) return
    }
  } catch {
    // It is not wanted whole either.
  }
}

function locationOf({ status, headers: { location } }: OutboundAnswer): string | undefined {
  if (![301, 302, 303, 307, 308].includes(status) || location === undefined) return undefined
  return Buffer.from(location, 'latin1').toString() // UTF-8, where it is no ASCII
}

function timeout(code: OutboundCode, what: string, ms: number): OutboundError {
  return new OutboundError(code, `${what} within ${ms / 1000} s`)
}

/** Of several addresses that were tried each has its own. */
function withMessage(error: Error): Error {
  if (error instanceof AggregateError) error.message ||= error.errors.map(({ message }: Error) => message).join(', ')
  return error
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error('aborted', { cause: reason })
}
