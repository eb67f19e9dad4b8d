import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void

type Exchange = readonly [IncomingMessage, ServerResponse]

/** The requests of a connection that have not been answered yet, in order. */
interface Line {
  readonly waiting: Exchange[]
  last: ServerResponse
  /** True if the connection must be closed after the last answer. */
  ends: boolean
}

/** Maximum number of waiting requests of a connection. Without this limit, one packet could add 3,600 requests. */
const perConnection = 16

/**
 * Processes the requests of each connection one after another. Node parses all requests in a packet at once, while no
 * other client gets an answer. Therefore each turn of the event loop starts only one waiting request, and connections
 * take turns. Clients that pipeline thus delay only each other.
 */
export class PipelinedRequests {
  /** Connections that have a request in progress. */
  readonly #lines = new Map<Duplex, Line>()
  /** Connections whose next request can start, in order. */
  readonly #ready: Duplex[] = []
  #closes = false

  constructor(private readonly handle: RequestHandler) {}

  enter(request: IncomingMessage, response: ServerResponse): void {
    const line = this.#lines.get(request.socket)
    if (this.#closes) response.shouldKeepAlive = false
    if (line === undefined) {
      this.#lines.set(request.socket, { waiting: [], last: response, ends: false })
      return this.#start(request, response)
    }
    if (line.ends) return
    line.waiting.push([request, response])
    if (this.#closes && !line.last.headersSent) line.last.shouldKeepAlive = true
    line.last = response
  }

  /** Closes each connection after the answer to its newest request. The answer announces the close (RFC 9112, 9.6). */
  closeConnections(): void {
    this.#closes = true
    for (const { last } of this.#lines.values()) if (!last.headersSent) last.shouldKeepAlive = false
  }

  /** True if the connection has the maximum number of waiting requests. */
  isFull(socket: Duplex): boolean {
    return (this.#lines.get(socket)?.waiting.length ?? 0) >= perConnection
  }

  isBusy(socket: Duplex): boolean {
    return this.#lines.has(socket)
  }

  /** True if an answer is in progress, so that nothing else can be sent on the connection. */
  isAnswering(socket: Duplex): boolean {
    const last = this.#lines.get(socket)?.last
    // False if the last request is incomplete. Malformed data then belongs to it, and the error can be its answer.
    return last !== undefined && !last.writableFinished && (last.headersSent || last.req.complete)
  }

  isEnding(socket: Duplex): boolean {
    return this.#lines.get(socket)?.ends ?? false
  }

  /** Closes a connection after all received requests were answered. Further requests are ignored. */
  endAfterAnswers(socket: Duplex): void {
    const line = this.#lines.get(socket)
    if (line === undefined) return void socket.destroy()
    line.ends = true
    if (!line.last.headersSent) line.last.setHeader('Connection', 'close')
  }

  #start(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    response.once('close', () => this.#proceed(socket))
    this.handle(request, response)
  }

  /** After an answer, continues with the connection's next waiting request. If none waits, forgets the connection. */
  #proceed(socket: Duplex): void {
    const line = this.#lines.get(socket)!
    if (line.waiting.length > 0 && !socket.destroyed) {
      if (this.#ready.push(socket) === 1) setImmediate(() => this.#startNext())
      return
    }
    this.#lines.delete(socket)
    if (line.ends) socket.end()
  }

  #startNext(): void {
    const socket = this.#ready.shift()!
    if (this.#ready.length > 0) setImmediate(() => this.#startNext())
    if (socket.destroyed) return this.#proceed(socket)
    this.#start(...this.#lines.get(socket)!.waiting.shift()!)
  }
}
