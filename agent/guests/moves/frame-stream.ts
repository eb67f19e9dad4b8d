import type { Duplex, Writable } from 'node:stream'
import { conflict } from '../../../shared/errors.js'
import { FrameReader, frameOf } from '../../../shared/framing.js'

/** ALPN name of transfers on an agent's port. */
export const transferProtocol = 'berth-transfer/1'
/** ALPN name of connections that carry the memory of a running guest, as its driver sends it. */
export const memoryProtocol = 'berth-memory/1'

/** Size in bytes of the parts in which data is sent. A frame has at most 96 KiB. */
const partBytes = 64 * 1024

export interface Frame {
  readonly content: Buffer
  /** True for a part of data, false for a message. */
  readonly isData: boolean
}

/** Interval of keep-alives in ms, and the time without any frame after which a reader ends the connection. */
export interface SilenceTimes {
  readonly keepAliveMs: number
  readonly silenceMs: number
}
const usualTimes: SilenceTimes = { keepAliveMs: 15_000, silenceMs: 120_000 }

/** An empty frame. It is sent at intervals when no data waits to be sent, because the peer ends a silent connection. */
const keepAlive = frameOf(Buffer.alloc(0))

/** A connection for JSON messages and data. It has back-pressure in both directions. */
export class FrameStream {
  readonly #frames: AsyncGenerator<Frame, undefined>

  constructor(
    private readonly socket: Duplex,
    { keepAliveMs, silenceMs }: SilenceTimes = usualTimes,
  ) {
    this.#frames = readFrames(socket, silenceMs)
    const timer = setInterval(() => this.#keepAlive(), keepAliveMs).unref()
    socket.once('close', () => clearInterval(timer))
  }

  #keepAlive(): void {
    if (this.socket.writable && this.socket.writableLength === 0) this.socket.write(keepAlive)
  }

  async send(message: object): Promise<void> {
    await this.#write(frameOf(Buffer.from(JSON.stringify(message))))
  }

  async sendData(data: Buffer): Promise<void> {
    for (let at = 0; at < data.length; at += partBytes)
      await this.#write(frameOf(data.subarray(at, at + partBytes), true))
  }

  /** Returns the next frame. @throws {BerthError} `connection_lost` if the peer has ended the connection */
  async next(): Promise<Frame> {
    const { value } = await this.#frames.next()
    if (!value)
      throw conflict('connection_lost', 'the other host ended the connection before the transfer was complete')
    return value
  }

  /** Returns the next message, which must not be data. */
  async nextMessage(): Promise<unknown> {
    const { content, isData } = await this.next()
    if (isData) throw conflict('bad_stream', 'the other host sent data where a message was expected')
    return JSON.parse(content.toString())
  }

  async #write(frame: Buffer): Promise<void> {
    await writeTo(this.socket, frame)
  }
}

async function* readFrames(socket: Duplex, silenceMs: number): AsyncGenerator<Frame, undefined> {
  const reader = new FrameReader()
  const chunks = (socket as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  for (;;) {
    const next = await nextWithin(chunks, socket, silenceMs)
    if (next.done) return undefined
    const frames: Frame[] = []
    reader.push(next.value, (content, isData) => void (content.length > 0 && frames.push({ content, isData })))
    yield* frames
  }
}

/** Waits for the next chunk, at most for `silenceMs`. The time between calls of this function does not count. */
async function nextWithin(chunks: AsyncIterator<Buffer>, socket: Duplex, silenceMs: number) {
  const silent = new Error(`the other host sent no data for ${silenceMs / 1000} s`)
  const timer = setTimeout(() => socket.destroy(silent), silenceMs).unref()
  try {
    return await chunks.next()
  } finally {
    clearTimeout(timer)
  }
}

/** Writes data and waits until the stream has taken it. @throws the stream's error, also for a closed stream */
export function writeTo(stream: Writable, data: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}
