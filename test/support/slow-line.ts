import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from 'node:net'

/** Decides whether a connection is slow. Called for each piece of data that the client sends. */
type IsSlow = (sent: Buffer, connection: number) => boolean

/** A proxy that delays what slow connections receive, so that gateways behind it learn late of changes. */
export class SlowLine {
  readonly #sockets = new Set<Socket>()
  #held: (() => void)[] | undefined
  #connections = 0
  readonly #server = createServer((near) => this.#forward(near))

  private constructor(
    private readonly target: NetConnectOpts,
    private readonly delayMs: number,
    private readonly isSlow: IsSlow,
  ) {}

  /**
   * Delays only connections to a Redis server that have subscribed to a channel.
   * @param url URL of the server, with the path of its Unix socket
   */
  static toRedis(url: string, delayMs: number): Promise<SlowLine> {
    return SlowLine.start({ path: new URL(url).pathname }, delayMs, (sent) => sent.includes('\r\nsubscribe\r\n'))
  }

  static async start(target: NetConnectOpts, delayMs: number, isSlow: IsSlow): Promise<SlowLine> {
    const line = new SlowLine(target, delayMs, isSlow)
    line.#server.listen(0, '127.0.0.1')
    await once(line.#server, 'listening')
    return line
  }

  /** Address of the proxy, as host:port. */
  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Delivers nothing more to slow connections until `release`. */
  hold(): void {
    this.#held ??= []
  }

  release(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const send of held) send()
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }

  #forward(near: Socket): void {
    const far = connect(this.target)
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket.setNoDelay())
      socket.on('error', () => socket.destroy())
      socket.on('close', () => other.destroy())
    }
    const connection = ++this.#connections
    let isSlow = false
    near.on('data', (data) => {
      isSlow ||= this.isSlow(data, connection)
      far.write(data)
    })
    far.on('data', (data) => {
      if (isSlow) setTimeout(() => this.#pass(() => near.write(data)), this.delayMs)
      else near.write(data)
    })
  }

  #pass(send: () => void): void {
    if (this.#held) this.#held.push(send)
    else send()
  }
}
