import { setTimeout as delay } from 'node:timers/promises'
import { EventStream, type ReceivedEvent } from './event-stream.js'

const pauseMs = 200

/** A client of `GET /events` that resumes after its last event, as browsers do. */
export class ResumingStream {
  readonly events: ReceivedEvent[] = []
  connections = 0
  readonly failures: string[] = []
  #stopped = false
  #stream: EventStream | undefined

  constructor(
    private readonly url: string,
    private readonly headers: Record<string, string>,
  ) {
    void this.#run()
  }

  stop(): void {
    this.#stopped = true
    this.#stream?.close()
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      await this.#connect().catch((error: unknown) => this.failures.push(String(error)))
      await delay(pauseMs)
    }
  }

  async #connect(): Promise<void> {
    const lastId = this.events.findLast(({ id }) => id !== '')?.id
    const stream = await EventStream.open(this.url, { ...this.headers, ...(lastId && { 'last-event-id': lastId }) })
    this.#stream = stream
    this.connections++
    for (let taken = 0; !stream.closed || taken < stream.events.length; await delay(20))
      for (; taken < stream.events.length; taken++) this.events.push(stream.events[taken]!)
  }
}
