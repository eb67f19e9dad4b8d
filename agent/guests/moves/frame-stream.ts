import type { Duplex, Writable } from 'node:stream'
import { conflict } from '../../../shared/errors.js'
import { FrameReader, frameOf } from '../../../shared/framing.js'

/** ALPN name of transfers on an agent's port. */
export const transferProtocol = 'berth-transfer/1'

/** Size of parts of data. A frame has at most 96 KiB. */
const partBytes = 64 * 1024

export interface Frame {
  readonly content: Buffer
  /** True for a part of data, false for a message. */
  readonly isData: boolean
}

/** Messages (JSON) and data on a connection. Reading waits for the consumer, and writing for the peer. */
export class FrameStream {
  readonly #frames: AsyncGenerator<Frame, undefined>

  constructor(private readonly socket: Duplex) {
    this.#frames = readFrames(socket)
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
    if (!value) throw conflict('connection_lost', 'the other host has ended the connection')
    return value
  }

  /** Returns the next message, which must not be data. */
  async nextMessage(): Promise<unknown> {
    const { content, isData } = await this.next()
    if (isData) throw conflict('bad_stream', 'the other host sent data in place of a message')
    return JSON.parse(content.toString())
  }

  async #write(frame: Buffer): Promise<void> {
    await writeTo(this.socket, frame)
  }
}

async function* readFrames(socket: Duplex): AsyncGenerator<Frame, undefined> {
  const reader = new FrameReader()
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    const frames: Frame[] = []
    reader.push(chunk, (content, isData) => void frames.push({ content, isData }))
    yield* frames
  }
  return undefined
}

/** Writes data and waits until the stream has taken it. @throws the error of the stream, also if it was closed */
export function writeTo(stream: Writable, data: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}
