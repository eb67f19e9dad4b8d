import type { ClientReadableStream } from '@grpc/grpc-js'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import type { AgentConnection } from './agents/agent-connection.js'
import type { HostState } from './host-state.js'
import { WatchSnapshot } from './snapshot.js'
import type { WatchEvent } from './watch-kinds.js'

/** Data of a stream before its event `synced`: the complete state, or the changes since the last received revision. */
export type SyncedState =
  | { kind: 'all'; snapshot: WatchSnapshot; epoch: string; revision: number }
  | { kind: 'changes'; changes: WatchResponse[]; epoch: string; revision: number }

export interface WatchHandlers {
  /** Called with the state at the event `synced`. Later changes wait until the returned promise resolves. */
  synced(state: SyncedState): Promise<void>
  /** Called for each change after `synced`, in order. */
  changed(message: WatchResponse): void
  /** Called exactly once, when the session ends for any reason. */
  ended(reason: unknown): void
}

/** Maximum number of events of one host in a time window. Further events wait, so that other hosts get their share. */
const maxEvents = { count: 1500, windowMs: 100 } as const
/** Maximum number of events in the complete state, which a stream sends before its event `synced`. */
const maxUnsynced = 200_000

/** One Watch stream from its call to its end. It first delivers a consistent state, and then changes of this state. */
export class WatchSession {
  #stream: ClientReadableStream<WatchResponse>
  #snapshot: WatchSnapshot | undefined
  #changes: WatchResponse[] | undefined = []
  #unsynced = 0
  #ended = false
  /** True while the complete state is written to the fleet view. Later changes must wait until it is written. */
  #holding = false
  #idleTimer: NodeJS.Timeout | undefined
  readonly #rate = { windowStart: 0, events: 0 }

  /** @param host contains the last received revision; the agent sends all later changes, or else its complete state */
  constructor(
    readonly connection: AgentConnection,
    private readonly host: Pick<HostState, 'epoch' | 'revision' | 'stored'>,
    private readonly handlers: WatchHandlers,
  ) {
    this.#stream = connection.watch.watch({ epoch: host.epoch, revision: host.revision, acceptsGuestBatches: true })
    this.#stream.on('data', (message: WatchResponse) => this.#receive(message))
    // Without a listener, an error of the stream would end the process.
    this.#stream.on('error', (error) => this.#end(error))
    this.#stream.on('end', () => this.#end(new Error('the agent ended the stream')))
    this.#expectMore()
  }

  get ended(): boolean {
    return this.#ended
  }

  /** Ends the stream and its connection without calling `ended`. */
  close(): void {
    this.#ended = true
    this.#release()
  }

  #receive(message: WatchResponse): void {
    if (this.#ended) return
    try {
      this.#throttle()
      if (this.#changes === undefined) return this.handlers.changed(message)
      this.#expectMore()
      this.#collect(message, message.event)
    } catch (error) {
      this.#end(error)
    }
  }

  #collect(message: WatchResponse, event: WatchEvent | undefined): void {
    if (event?.$case === 'synced') return this.#finishSync(event.value.epoch, message.revision)
    this.#countUnsynced(event?.$case === 'guests' ? event.value.guests.length : 1)
    if (event?.$case === 'guests') return this.#collectGuests(event.value.guests)
    if (event?.$case === 'reset') {
      this.#snapshot = new WatchSnapshot()
      this.#changes = []
    } else if (this.#snapshot && event) this.#snapshot.add(event)
    else this.#changes?.push(message)
  }

  #countUnsynced(events: number): void {
    this.#unsynced += events
    if (this.#unsynced > maxUnsynced)
      throw new Error(`the agent sent more than ${maxUnsynced} events without completing the report of its state`)
  }

  /** Adds guests to the complete state. A guest that is unchanged since it was stored is not decoded again. */
  #collectGuests(guests: readonly Buffer[]): void {
    const { stored } = this.host
    for (const bytes of guests) {
      const value = stored.get(bytes.toString('base64')) ?? Guest.decode(bytes)
      this.#snapshot?.add({ $case: 'guest', value })
    }
  }

  #finishSync(epoch: string, revision: number): void {
    clearTimeout(this.#idleTimer)
    const [snapshot, changes] = [this.#snapshot, this.#changes ?? []]
    this.#snapshot = undefined
    this.#changes = undefined
    const state: SyncedState = snapshot
      ? { kind: 'all', snapshot, epoch, revision }
      : { kind: 'changes', changes, epoch, revision }
    this.#holding = true
    this.#stream.pause()
    this.handlers.synced(state).then(
      () => {
        this.#holding = false
        this.#resume()
      },
      (error: unknown) => this.#end(error),
    )
  }

  /** Ends the session if the agent is silent for too long before `synced`. Later, keepalive pings detect silence. */
  #expectMore(): void {
    const { silenceMs } = this.connection.target
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => this.#end(new Error(`the agent was silent for ${silenceMs} ms`)), silenceMs)
  }

  #throttle(): void {
    const now = performance.now()
    if (now - this.#rate.windowStart > maxEvents.windowMs) Object.assign(this.#rate, { windowStart: now, events: 0 })
    if (++this.#rate.events !== maxEvents.count) return
    this.#stream.pause()
    setTimeout(() => this.#resume(), maxEvents.windowMs)
  }

  #resume(): void {
    if (!this.#ended && !this.#holding) this.#stream.resume()
  }

  #end(reason: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#release()
    this.handlers.ended(reason)
  }

  #release(): void {
    clearTimeout(this.#idleTimer)
    this.#stream.cancel()
    this.connection.close()
  }
}
