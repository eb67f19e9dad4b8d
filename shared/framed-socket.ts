import type { Socket } from 'node:net'
import { FrameReader, frameOf, type OnFrame } from './framing.js'

/**
 * ALPN name of consoles on an agent's port; each connection carries one console. See proto/berth/agent/v1/console.proto
 */
export const consoleProtocol = 'berth-console/2'

/** Interval of keep-alives. A peer that missed two of them is given up. */
const defaultSignEveryMs = 5000
const silentSigns = 2
/** Longest time until data that was sent before the end has arrived. */
const lastSendMs = 10_000

const sign = frameOf(Buffer.alloc(0))

export interface FramedSocketListener {
  /** May throw a RangeError or a decoding error, which `onEnd` then receives. Never called for a keep-alive. */
  readonly onFrame: OnFrame
  /** Called once. @param error undefined if the other side ended the connection */
  onEnd(error: Error | undefined): void
}

/** Frames on a connection. An empty frame is a keep-alive. */
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
   * Sends what is pending, then ends, at the latest after `withinMs`; received frames are ignored. The last call
   * counts.
   */
  end(withinMs = lastSendMs): void {
    clearTimeout(this.#ending)
    this.#ending = setTimeout(() => this.socket.destroy(), withinMs).unref()
    this.socket.end()
    this.socket.resume() // a paused socket would not notice its peer's end
  }

  /** Ends the connection at once. */
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

  /**
   * Does not count while this side is paused: it receives nothing then, and unread data may delay the peer's
   * keep-alives.
   */
  #sign(): void {
    if (!this.socket.isPaused() && this.#signsMissed++ >= silentSigns)
      return this.destroy(new Error('the other side is silent'))
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

/** Longest time between two checks of the peer's certificate. */
const peerCheckMs = 100

/** A check that is called for every message but runs at most every 100 ms; it runs again at once after a failure. */
export function sparingly(check: () => void): () => void {
  let passedAtMs = -Infinity
  return () => {
    const nowMs = performance.now()
    if (nowMs - passedAtMs < peerCheckMs) return
    check()
    passedAtMs = nowMs
  }
}
