import { WebSocket } from 'ws'
import { waitFor } from '../wait.js'

export interface ConsoleClientOptions {
  /** Origin header. By default the server's own origin; null: the request has no such header. */
  readonly origin?: string | null
  readonly protocols?: readonly string[]
  readonly query?: Record<string, string>
  readonly headers?: Record<string, string>
  /** If true, the client acknowledges output. Default: true for berth.console.v1, which requires acknowledgements. */
  readonly acknowledges?: boolean
}

/** A client of a console. It stores everything that it receives, in order. */
export class ConsoleClient {
  readonly texts: string[] = []
  bytes: Buffer = Buffer.alloc(0)
  received = 0
  closed: { readonly code: number; readonly reason: string } | undefined
  /** Status and body of the response, if the server refused to open a WebSocket. */
  refused: { readonly status: number; readonly body: string } | undefined
  onBytes: (bytes: Buffer) => void = (bytes) => (this.bytes = Buffer.concat([this.bytes, bytes]))

  private constructor(
    readonly socket: WebSocket,
    private readonly acknowledges: boolean,
  ) {
    let acknowledged = 0
    socket.on('message', (data, isBinary) => {
      const bytes = data as Buffer
      if (!isBinary) return void this.texts.push(bytes.toString())
      this.received += bytes.length
      this.onBytes(bytes)
      if (!this.acknowledges || this.received - acknowledged < 128 * 1024) return
      acknowledged = this.received
      this.say({ type: 'ack', bytes: this.received })
    })
    socket.on('unexpected-response', (request, response) => {
      let body = ''
      response.on('data', (chunk: Buffer) => (body += chunk.toString()))
      response.on('end', () => (this.refused = { status: response.statusCode ?? 0, body }))
      response.on('error', () => request.destroy())
    })
    socket.on('error', () => undefined)
    socket.on('close', (code, reason) => (this.closed = { code, reason: reason.toString() }))
  }

  /** @param url such as http://127.0.0.1:8080/api/v1/ssh */
  static open(url: string, options: ConsoleClientOptions = {}): ConsoleClient {
    const { origin = new URL(url).origin, protocols = [], query = {}, headers = {} } = options
    const address = `${url.replace(/^http/, 'ws')}?${new URLSearchParams(query).toString()}`
    const socket = new WebSocket(address, [...protocols], {
      headers: { ...headers, ...(origin === null ? {} : { origin }) },
      perMessageDeflate: false,
    })
    return new ConsoleClient(socket, options.acknowledges ?? protocols.includes('berth.console.v1'))
  }

  get text(): string {
    return this.bytes.toString()
  }

  /** Returns the received status messages of berth.console.v1. */
  get states(): Record<string, unknown>[] {
    return this.texts.map((text) => JSON.parse(text) as Record<string, unknown>)
  }

  say(message: object): void {
    this.socket.send(JSON.stringify(message))
  }

  type(text: string | Buffer): void {
    this.socket.send(Buffer.from(text))
  }

  /** Resolves with the status message which reports that the guest's side is ready. */
  async ready(): Promise<{ state: string; resume: string; offset: number; replay?: number }> {
    const isReady = ({ state }: Record<string, unknown>): boolean => state === 'ready' || state === 'resumed'
    const found = await waitFor(() => this.states.find(isReady) ?? this.#ended(), {
      what: () => `ready: ${this.texts.join(' ')}`,
    })
    return found as { state: string; resume: string; offset: number }
  }

  shows(pattern: RegExp): Promise<unknown> {
    return waitFor(() => pattern.test(this.text), {
      intervalMs: 2,
      what: () => `${String(pattern)} in ${JSON.stringify(this.text.slice(-2000))} ${JSON.stringify(this.closed)}`,
    })
  }

  ended(): Promise<{ code: number; reason: string }> {
    return waitFor(() => this.closed, { what: 'the socket is closed' })
  }

  async refusal(): Promise<{ status: number; code: string }> {
    const { status, body } = await waitFor(() => this.refused, {
      what: () => `refused ${JSON.stringify(this.closed)}`,
    })
    return { status, code: (JSON.parse(body) as { code: string }).code }
  }

  #ended(): undefined {
    if (this.closed) throw new Error(`closed: ${this.closed.code} ${this.closed.reason} ${this.texts.join(' ')}`)
    if (this.refused) throw new Error(`refused: ${this.refused.status} ${this.refused.body}`)
  }
}
