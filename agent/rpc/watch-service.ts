import type { ServerWritableStream } from '@grpc/grpc-js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { WatchRequest, WatchResponse, WatchServiceServer } from '../../proto/gen/berth/agent/v1/watch.js'
import { toServiceError } from '../../shared/grpc-errors.js'
import type { Change, Changes } from '../state/changes.js'
import { encodeGuestBatches } from './guest-batches.js'
import type { WatchedEntity, WatchEvent, WatchKinds } from './watch-kinds.js'

type Call = ServerWritableStream<WatchRequest, WatchResponse>

/** Sources of the data that a watch sends. */
export interface WatchSource {
  readonly changes: Changes
  readonly kinds: WatchKinds
  describe(): HostDescription
  /** Called with the error if an error in this agent has ended a watch. */
  failed(error: unknown): void
  readonly metrics: {
    readonly latest: HostMetrics | undefined
    /** Registers a listener for each new sample. @returns a function that removes it */
    listen(listener: (metrics: HostMetrics) => void): () => void
  }
}

/** @returns the service; `close` ends all watches, because open watches would delay the server's shutdown */
export function createWatchService(source: WatchSource): { service: WatchServiceServer; close: () => void } {
  const open = new Set<WatchStream>()
  const service: WatchServiceServer = {
    watch: (call) => {
      const stream = new WatchStream(source, call, () => open.delete(stream))
      open.add(stream)
      stream.open()
    },
  }
  return { service, close: () => open.forEach((stream) => stream.end()) }
}

/**
 * The stream of changes to one watcher. If the watcher is slow, only the latest change of each entity is queued. This
 * limits the memory, and the watcher gets no outdated data.
 */
class WatchStream {
  /** Last changes by entity, in the order of their revisions. */
  readonly #pending = new Map<string, Change>()
  /** By entity: revision of the entity's first change that was not sent. Entries are in ascending order. */
  readonly #firstUnsent = new Map<string, number>()
  #writable = true
  #sentHost = ''
  #scheduled = false
  readonly #stop: (() => void)[] = []

  constructor(
    private readonly source: WatchSource,
    private readonly call: Call,
    private readonly onClosed: () => void,
  ) {}

  open(): void {
    const { call, source } = this
    call.on('error', () => this.#close())
    call.on('close', () => this.#close())
    call.on('cancelled', () => this.#close())
    call.on('drain', () => {
      this.#writable = true
      this.#guarded(() => this.#flush())
    })
    this.#stop.push(source.changes.onChange((change) => this.#queue(change)))
    this.#stop.push(source.metrics.listen((value) => this.#sendMetrics(value)))
    this.#guarded(() => this.#catchUp())
  }

  /** Runs `work`. If it fails, ends the watch, so that the watcher reconnects and gets the whole state again. */
  #guarded(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#close()
      this.source.failed(error)
      this.call.emit('error', toServiceError(error, 'watch the host')) // grpc-js sends no status after `destroy`
    }
  }

  end(): void {
    this.#close()
    this.call.end()
  }

  #close(): void {
    this.onClosed()
    for (const stop of this.#stop.splice(0)) stop()
    this.#pending.clear()
    this.#firstUnsent.clear()
  }

  /** Sends the state that the watcher lacks. `open` already listens for changes, so that no change is missed. */
  #catchUp(): void {
    const { changes } = this.source
    const { epoch, revision } = this.call.request
    const removals = epoch === changes.epoch ? changes.removedSince(revision) : undefined
    if (!removals) this.#send(0, { $case: 'reset', value: {} })
    this.#sendHost()
    if (removals) this.#sendSince(revision, removals)
    else this.#sendAll()
    const { latest } = this.source.metrics
    if (latest) this.#send(0, { $case: 'metrics', value: latest })
    this.#send(changes.revision, { $case: 'synced', value: { epoch: changes.epoch } })
  }

  #sendAll(): void {
    const { guest, ...others } = this.source.kinds
    if (!this.call.request.acceptsGuestBatches) return this.#sendSince(-1, [])
    const guests = inOrder(guest.list(-1)).flatMap(({ event }) => (event.$case === 'guest' ? [event.value] : []))
    for (const value of encodeGuestBatches(guests)) this.#send(0, { $case: 'guests', value })
    this.#sendEntities(Object.values(others).flatMap((kind) => kind.list(-1)))
  }

  #sendSince(revision: number, removals: readonly Change[]): void {
    const { kinds } = this.source
    const entities = Object.values(kinds).flatMap((kind) => kind.list(revision))
    const gone = removals
      .filter(({ kind, key }) => !kinds[kind].find(key))
      .map((removal) => ({ revision: removal.revision, event: removalOf(removal) }))
    this.#sendEntities([...entities, ...gone])
  }

  #sendEntities(entities: readonly WatchedEntity[]): void {
    for (const { revision, event } of inOrder(entities)) this.#send(revision, event)
  }

  #queue(change: Change): void {
    const key = `${change.kind}:${change.key}`
    this.#pending.delete(key) // deleting the key first makes the new entry the last one of the Map
    this.#pending.set(key, change)
    if (!this.#firstUnsent.has(key)) this.#firstUnsent.set(key, change.revision)
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#guarded(() => this.#flush())
    })
  }

  #flush(): void {
    for (const [key, change] of this.#pending) {
      if (!this.#writable) return
      this.#pending.delete(key)
      this.#firstUnsent.delete(key)
      const found = this.source.kinds[change.kind].find(change.key)
      this.#send(change.revision, found?.event ?? removalOf(change), this.#completeRevision(change.revision))
    }
  }

  /** Returns the revision up to which the watcher has all changes. @param sent revision that is sent now */
  #completeRevision(sent: number): number {
    const [first] = this.#firstUnsent.values()
    return first === undefined ? sent : Math.min(sent, first - 1)
  }

  #sendMetrics(value: HostMetrics): void {
    if (!this.#writable) return
    this.#sendHost()
    this.#send(0, { $case: 'metrics', value })
  }

  /** Sends the host's description if it differs from the last one sent. */
  #sendHost(): void {
    const value = this.source.describe()
    const text = JSON.stringify(value)
    if (text === this.#sentHost) return
    this.#sentHost = text
    this.#send(0, { $case: 'host', value })
  }

  #send(revision: number, event: WatchEvent, completeRevision = 0): void {
    this.#writable = this.call.write({ revision, event, completeRevision })
  }
}

function inOrder(entities: readonly WatchedEntity[]): WatchedEntity[] {
  return entities.toSorted((a, b) => a.revision - b.revision)
}

function removalOf({ kind, key }: Change): WatchEvent {
  return { $case: 'removed', value: { kind, key } }
}
