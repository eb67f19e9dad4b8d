import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A proxy to a local server that a test can cut: all connections end, and new connections are refused. */
export class CutLine {
  #isCut = false
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((near) => {
    if (this.#isCut) return void near.destroy()
    const far = connect(this.port, '127.0.0.1')
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.once('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
    }
    near.pipe(far).pipe(near)
  })

  private constructor(private readonly port: number) {}

  static async start(url: string): Promise<CutLine> {
    const line = new CutLine(Number(new URL(url).port))
    await new Promise<void>((resolve) => line.#server.listen(0, '127.0.0.1', resolve))
    return line
  }

  get url(): string {
    return `http://${this.address}`
  }

  /** Address of the proxy, as host:port. */
  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  cut(): void {
    this.#isCut = true
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Lets all open connections hang, as if a router had forgotten them. New connections work. */
  silence(): void {
    for (const socket of this.#sockets)
      socket
        .unpipe()
        .pause()
        .removeAllListeners()
        .on('error', () => undefined)
  }

  mend(): void {
    this.#isCut = false
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
