import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import { request as requestTls } from 'node:https'
import { waitFor } from '../wait.js'

export interface ReceivedEvent {
  readonly id: string
  /** Kind of the event, or `ready`, `reset` or `end`. */
  readonly event: string
  readonly data: { readonly type?: string; readonly code?: string; readonly data?: Record<string, unknown> }
}

/** A client of the event stream `GET /events`. */
export class EventStream {
  readonly events: ReceivedEvent[] = []
  closed = false
  bytes = 0
  #text = ''

  private constructor(
    private readonly sent: ClientRequest,
    readonly response: IncomingMessage,
  ) {
    response.on('data', (chunk: Buffer) => this.#take(chunk))
    for (const end of ['end', 'close', 'error']) response.on(end, () => (this.closed = true))
  }

  /** @throws {Error} with the text of the response if it is not an event stream */
  static async open(baseUrl: string, headers: Record<string, string>, query = ''): Promise<EventStream> {
    const response = await new Promise<readonly [ClientRequest, IncomingMessage]>((resolve, reject) => {
      const open = baseUrl.startsWith('https:') ? requestTls : request
      const sent = open(`${baseUrl}/api/v1/events${query}`, { headers, agent: false }, (answer) =>
        resolve([sent, answer]),
      )
      sent.on('error', reject)
      sent.end()
    })
    const stream = new EventStream(...response)
    if (response[1].statusCode === 200) return stream
    await waitFor(() => stream.closed)
    throw new Error(`${response[1].statusCode} ${stream.#text}`)
  }

  /** Resolves with the first event for which `isIt` returns true. The event may have been received before this call. */
  wait(isIt: (event: ReceivedEvent) => boolean, what: string): Promise<ReceivedEvent> {
    const missing = (): string => `${what}; received: ${JSON.stringify(this.events.slice(-5)).slice(0, 2000)}`
    return waitFor(() => this.events.find(isIt), { what: missing })
  }

  type(type: string): Promise<ReceivedEvent> {
    return this.wait(({ data }) => data.type === type, type)
  }

  get types(): (string | undefined)[] {
    return this.events.map(({ data, event }) => data.type ?? event)
  }

  /** Stops reading until `resume` is called. */
  pause(): void {
    this.response.pause()
  }

  resume(): void {
    this.response.resume()
  }

  close(): void {
    this.sent.destroy()
  }

  #take(chunk: Buffer): void {
    this.bytes += chunk.length
    this.#text += chunk.toString()
    for (let end = this.#text.indexOf('\n\n'); end >= 0; end = this.#text.indexOf('\n\n')) {
      const event = parse(this.#text.slice(0, end))
      if (event) this.events.push(event)
      this.#text = this.#text.slice(end + 2)
    }
  }
}

function parse(text: string): ReceivedEvent | undefined {
  const field = (name: string): string | undefined =>
    text
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2)
  const data = field('data')
  if (data === undefined) return undefined
  return {
    id: field('id') ?? '',
    event: field('event') ?? '',
    data: JSON.parse(data) as ReceivedEvent['data'],
  }
}
