import { connect } from 'node:net'
import type { ConsoleClient } from '../support/gateway/console-client.js'

/** A connection that carries the bytes of a screen. */
export interface RfbTransport {
  send(bytes: Buffer): void
  onBytes(take: (bytes: Buffer) => void): void
  close(): void
}

export function overSocket(path: string): RfbTransport {
  const socket = connect(path)
  return {
    send: (bytes) => void socket.write(bytes),
    onBytes: (take) => void socket.on('data', take),
    close: () => void socket.destroy(),
  }
}

export function overConsole(client: ConsoleClient): RfbTransport {
  return {
    send: (bytes) => client.type(bytes),
    onBytes: (take) => {
      const early = client.bytes
      client.onBytes = take
      if (early.length > 0) take(early)
    },
    close: () => client.socket.close(1000),
  }
}

/** A client of RFB 3.8 (RFC 6143). It requests complete frames in Raw encoding, one after another. */
export class RfbClient {
  #parts: Buffer[] = []
  #length = 0
  #wake: () => void = () => undefined
  #width = 0
  #height = 0
  #pixelBytes = 4

  private constructor(private readonly transport: RfbTransport) {
    transport.onBytes((bytes) => {
      this.#parts.push(bytes)
      this.#length += bytes.length
      this.#wake()
    })
  }

  static async open(transport: RfbTransport): Promise<RfbClient> {
    const client = new RfbClient(transport)
    await client.#greet()
    return client
  }

  close(): void {
    this.transport.close()
  }

  /** Requests a frame. @returns the number of bytes of its pixels */
  async frame(): Promise<number> {
    const ask = Buffer.from([3, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    ask.writeUInt16BE(this.#width, 6)
    ask.writeUInt16BE(this.#height, 8)
    this.transport.send(ask)
    const head = await this.#read(4)
    if (head[0] !== 0) throw new Error(`message ${head[0]}`)
    let bytes = 0
    for (let left = head.readUInt16BE(2); left > 0; left--) {
      const rectangle = await this.#read(12)
      const size = rectangle.readUInt16BE(4) * rectangle.readUInt16BE(6) * this.#pixelBytes
      await this.#read(size)
      bytes += size
    }
    return bytes
  }

  async #greet(): Promise<void> {
    await this.#read(12)
    this.transport.send(Buffer.from('RFB 003.008\n'))
    const [types = 0] = await this.#read(1)
    await this.#read(types)
    this.transport.send(Buffer.from([1])) // security type 1: no authentication
    await this.#read(4)
    this.transport.send(Buffer.from([1])) // shared session
    const init = await this.#read(24)
    this.#width = init.readUInt16BE(0)
    this.#height = init.readUInt16BE(2)
    this.#pixelBytes = (init[4] ?? 32) / 8
    await this.#read(init.readUInt32BE(20))
    this.transport.send(Buffer.from([2, 0, 0, 1, 0, 0, 0, 0])) // encodings: only Raw
  }

  async #read(bytes: number): Promise<Buffer> {
    while (this.#length < bytes) await new Promise<void>((resolve) => (this.#wake = resolve))
    const all = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    this.#parts = [all.subarray(bytes)]
    this.#length -= bytes
    return all.subarray(0, bytes)
  }
}
