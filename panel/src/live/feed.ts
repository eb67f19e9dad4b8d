/* The event stream `GET /api/v1/events` for tabs. It runs in the worker that all tabs share, or in a single tab. */

export type FeedMessage =
  /** The stream is open, and no further event will be missed. Data that was read earlier can be outdated. */
  | { readonly kind: 'open' }
  /** Some events were missed, so all data must be read again. */
  | { readonly kind: 'reset' }
  /** The `data` fields of events, in order. */
  | { readonly kind: 'events'; readonly events: readonly string[] }
  | { readonly kind: 'lost' }

/** Messages from tabs to the worker. */
export type FeedOrder =
  /** Subscribes the tab to messages. The first message reports the current state of the stream. */
  | 'open'
  /** The tab is hidden and needs no stream. */
  | 'rest'
  | 'leave'

const kinds = ['guest', 'task', 'host', 'usage', 'alert', 'maintenance'] as const
/** Time in ms of silence after which a stream counts as broken. The gateway sends something every 15 s. */
const silentMs = 40_000
/** Time in ms for which events are collected before they are passed on. */
const gatherMs = 30

/** One connection to the event stream. It does not reconnect, because only a tab can find out why it was lost. */
export class EventFeed {
  isOpen = false
  #source: EventSource | undefined
  #waiting: string[] = []
  #gathering: ReturnType<typeof setTimeout> | undefined
  #watching: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly tell: (message: FeedMessage) => void) {}

  open(): void {
    if (this.#source) return
    const source = new EventSource('/api/v1/events')
    this.#source = source
    const on = (name: string, run: (data: string) => void): void =>
      source.addEventListener(name, (event) => {
        this.#watch()
        run((event as MessageEvent<string>).data)
      })
    for (const kind of kinds) on(kind, (data) => this.#take(data))
    on('ready', () => this.#begin('open'))
    on('reset', () => this.#begin('reset'))
    on('beat', () => undefined)
    on('end', () => this.#lose())
    source.onerror = () => this.#lose()
    this.#watch()
  }

  close(): void {
    clearTimeout(this.#watching)
    this.#source?.close()
    this.#source = undefined
    this.isOpen = false
  }

  #begin(kind: 'open' | 'reset'): void {
    this.#pass()
    this.isOpen = true
    this.tell({ kind })
  }

  #take(data: string): void {
    this.#waiting.push(data)
    this.#gathering ??= setTimeout(() => this.#pass(), gatherMs)
  }

  #pass(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    if (this.#waiting.length === 0) return
    this.tell({ kind: 'events', events: this.#waiting })
    this.#waiting = []
  }

  #watch(): void {
    clearTimeout(this.#watching)
    this.#watching = setTimeout(() => this.#lose(), silentMs)
  }

  #lose(): void {
    this.#pass()
    this.close()
    this.tell({ kind: 'lost' })
  }
}
