import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void

type Exchange = readonly [IncomingMessage, ServerResponse]

/** The requests of one connection that are not answered yet. */
interface Line {
  readonly waiting: Exchange[]
  last: ServerResponse
  /** The connection closes after the last answer. */
  ends: boolean
}

/** A connection closes after this many waiting requests. Node parses up to 3,600 from one packet without a pause. */
const perConnection = 16

/**
 * Handles the requests of a connection one after another. Node parses a packet as a whole and hands over every request in
 * it at once, and no other client gets an answer meanwhile. One request that waited starts in each turn of the event loop,
 * and the connections alternate. So clients that pipeline wait for each other and delay nobody else.
 */
export class PipelinedRequests {
  /** Connections with a request that is being handled. */
  readonly #lines = new WeakMap<Duplex, Line>()
  /** Connections whose next request may start, in their order. */
  readonly #ready: Duplex[] = []

  constructor(private readonly handle: RequestHandler) {}

  enter(request: IncomingMessage, response: ServerResponse): void {
    const line = this.#lines.get(request.socket)
    if (line === undefined) {
      this.#lines.set(request.socket, { waiting: [], last: response, ends: false })
      return this.#start(request, response)
    }
    if (line.ends) return
    line.waiting.push([request, response])
    line.last = response
  }

  /** True if a connection may have no further request waiting. */
  isFull(socket: Duplex): boolean {
    return (this.#lines.get(socket)?.waiting.length ?? 0) >= perConnection
  }

  isBusy(socket: Duplex): boolean {
    return this.#lines.has(socket)
  }

  /** True if nothing else can be sent on a connection, as an answer is under way. */
  isAnswering(socket: Duplex): boolean {
    const last = this.#lines.get(socket)?.last
    // While the request is still arriving, the malformed data is a part of it.
    return last !== undefined && !last.writableFinished && (last.headersSent || last.req.complete)
  }

  isEnding(socket: Duplex): boolean {
    return this.#lines.get(socket)?.ends ?? false
  }

  /** Closes a connection after the answers to the requests that have arrived; ignores further ones. */
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

  /** After an answer, or when the connection is closed. */
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
