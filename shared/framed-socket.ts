import type { Socket } from 'node:net'
import { FrameReader, frameOf, type OnFrame } from './framing.js'

/**
 * ALPN name of the console protocol on an agent's port (proto/berth/agent/v1/console.proto). Each connection carries
 * one console.
 */
export const consoleProtocol = 'berth-console/2'

/** Interval in ms of each side's keep-alives. The connection ends when two keep-alives of the peer are missing. */
const defaultSignEveryMs = 5000
const silentSigns = 2
/** Maximum time in ms for sending pending data after `end` was called. */
const lastSendMs = 10_000

const sign = frameOf(Buffer.alloc(0))

export interface FramedSocketListener {
  /** Called for every frame except keep-alives. If it throws, the connection ends, and `onEnd` gets the error. */
  readonly onFrame: OnFrame
  /** Called only once. @param error undefined if the peer ended the connection */
  onEnd(error: Error | undefined): void
}

/** A connection that carries frames. An empty frame is a keep-alive. */
export class FramedSocket {
  readonly #reader = new FrameReader()
  readonly #timer: NodeJS.Timeout
  #signsMissed = 0
  #ending: NodeJS.Timeout | undefined
  #error: Error | undefined

  constructor(
    private readonly socket: Socket,
    private readonly listener: FramedSocketListener,
    signEveryMs = defaultSignEveryMs,
  ) {
    socket.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', (error) => (this.#error ??= error))
    socket.on('close', () => this.#closed())
    this.#timer = setInterval(() => this.#sign(), signEveryMs).unref()
  }

  get isPaused(): boolean {
    return this.socket.isPaused()
  }

  send(frame: Buffer): void {
    if (this.socket.writable) this.socket.write(frame)
  }

  /**
   * Sends pending data, and ends the connection after `withinMs` at the latest. Ignores received frames. A further call
   * replaces the time limit.
   */
  end(withinMs = lastSendMs): void {
    clearTimeout(this.#ending)
    this.#ending = setTimeout(() => this.socket.destroy(), withinMs).unref()
    this.socket.end()
    this.socket.resume() // a paused socket would not notice that its peer has ended the connection
  }

  /** Ends the connection immediately. */
  destroy(error?: Error): void {
    this.#error ??= error
    this.socket.destroy()
  }

  pause(): void {
    if (!this.#ending) this.socket.pause()
  }

  resume(): void {
    this.#signsMissed = 0
    this.socket.resume()
  }

  #read(chunk: Buffer): void {
    this.#signsMissed = 0
    if (this.#ending) return
    try {
      this.#reader.push(chunk, this.#onFrame)
    } catch (error) {
      this.destroy(error as Error)
    }
  }

  /** Ignores missed keep-alives while this side is paused, because unread data can delay the peer's keep-alives. */
  #sign(): void {
    if (!this.socket.isPaused() && this.#signsMissed++ >= silentSigns)
      return this.destroy(new Error('the other side of the connection does not answer'))
    if (this.socket.writableLength === 0) this.send(sign)
  }

  readonly #onFrame: OnFrame = (content, isBytes) => {
    if (content.length > 0 && !this.#ending) this.listener.onFrame(content, isBytes)
  }

  #closed(): void {
    clearInterval(this.#timer)
    clearTimeout(this.#ending)
    this.listener.onEnd(this.#error)
  }
}

/** Time in ms for which a successful check of the peer's certificate is not repeated. */
const peerCheckMs = 100

/** Wraps a check. After a success, the check is not repeated for 100 ms. After a failure, the next call repeats it. */
export function sparingly(check: () => void): () => void {
  let passedAtMs = -Infinity
  return () => {
    const nowMs = performance.now()
    if (nowMs - passedAtMs < peerCheckMs) return
    check()
    passedAtMs = nowMs
  }
}
