import type { Socket } from 'node:net'
import { FrameReader, frameOf, type OnFrame } from './framing.js'

/** ALPN name of consoles on an agent's port: one console to a connection. See proto/berth/agent/v1/console.proto */
export const consoleProtocol = 'berth-console/2'

/** A side says that it is there so often, and is given up once it missed that twice. */
const defaultSignEveryMs = 5000
const silentSigns = 2
/** What was sent before an end may take so long to arrive. */
const lastSendMs = 10_000

const sign = frameOf(Buffer.alloc(0))

export interface FramedSocketListener {
  /** May throw RangeError or an error of decoding, which `onEnd` then has. Never with a sign of life. */
  readonly onFrame: OnFrame
  /** Called once. @param error undefined where the other side has ended it */
  onEnd(error: Error | undefined): void
}

/** Frames on a connection. An empty one is a sign of life. */
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

  /** Ends it after what was sent, or at the latest after a while; nothing that comes is heard any more. The last call counts. */
  end(withinMs = lastSendMs): void {
    clearTimeout(this.#ending)
    this.#ending = setTimeout(() => this.socket.destroy(), withinMs).unref()
    this.socket.end()
    this.socket.resume() // one that is paused would not hear of its peer's end
  }

  /** Ends it at once. */
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

  /** A side that does not read hears nothing, and what it has not read may hold up its peer's signs. */
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

/** How long a peer that may no longer be here goes on at most. */
const peerCheckMs = 100

/** A check of the peer that is asked for at every message and made at most ten times a second; again at once where it threw. */
export function sparingly(check: () => void): () => void {
  let passedAtMs = -Infinity
  return () => {
    const nowMs = performance.now()
    if (nowMs - passedAtMs < peerCheckMs) return
    check()
    passedAtMs = nowMs
  }
}
