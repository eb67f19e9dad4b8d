import type { ServerWritableStream } from '@grpc/grpc-js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { WatchRequest, WatchResponse, WatchServiceServer } from '../../proto/gen/berth/agent/v1/watch.js'
import { toServiceError } from '../../shared/grpc-errors.js'
import type { Change, ChangeKind, Changes } from '../state/changes.js'

type Event = NonNullable<WatchResponse['event']>
type Call = ServerWritableStream<WatchRequest, WatchResponse>

/** Where the watch reads what it sends. */
export interface WatchSource {
  readonly changes: Changes
  /** Everything of a kind that changed after a revision (-1: everything), with its revision. */
  list(kind: ChangeKind, sinceRevision: number): { revision: number; event: Event }[]
  /** One entity as it is now; undefined when it is gone. */
  read(kind: ChangeKind, key: string): Event | undefined
  removal(kind: ChangeKind, key: string): Event
  describe(): HostDescription
  /** Told of what ended a watch from this side. */
  failed(error: unknown): void
  metrics(): HostMetrics | undefined
  /** Calls back with each new sample. @returns how to stop */
  onMetrics(listener: (metrics: HostMetrics) => void): () => void
}

const kinds: readonly ChangeKind[] = ['template', 'guest', 'operation']

/** @returns the service, and how to end all watches: without it a server waits for them at shutdown */
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
 * One watcher. While it is slow, changes to one entity collapse into the last: memory is bounded by the
 * number of entities, and what is sent is always current.
 */
class WatchStream {
  readonly #pending = new Map<string, Change>()
  #writable = true
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
    this.#stop.push(source.onMetrics((value) => this.#sendMetrics(value)))
    this.#guarded(() => this.#catchUp())
  }

  /** A watcher that cannot be told of a change is told so: it comes back and starts over. */
  #guarded(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#close()
      this.source.failed(error)
      this.call.destroy(toServiceError(error, 'watch'))
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
  }

  /** Synchronous, so no change falls between reading the journal and listening. */
  #catchUp(): void {
    const { changes } = this.source
    const { epoch, revision } = this.call.request
    const removals = epoch === changes.epoch ? changes.removedSince(revision) : undefined
    if (!removals) this.#send(0, { $case: 'reset', value: {} })
    this.#send(0, { $case: 'host', value: this.source.describe() })
    this.#sendSince(removals ? revision : -1, removals ?? [])
    const metrics = this.source.metrics()
    if (metrics) this.#send(0, { $case: 'metrics', value: metrics })
    this.#send(changes.revision, { $case: 'synced', value: { epoch: changes.epoch } })
  }

  #sendSince(revision: number, removals: readonly Change[]): void {
    const entities = kinds.flatMap((kind) => this.source.list(kind, revision))
    const gone = removals
      .filter(({ kind, key }) => !this.source.read(kind, key))
      .map((r) => ({ revision: r.revision, event: this.source.removal(r.kind, r.key) }))
    for (const item of [...entities, ...gone].sort((a, b) => a.revision - b.revision))
      this.#send(item.revision, item.event)
  }

  #queue(change: Change): void {
    const key = `${change.kind}:${change.key}`
    this.#pending.delete(key) // the map stays ordered by revision
    this.#pending.set(key, change)
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
      const event = this.source.read(change.kind, change.key) ?? this.source.removal(change.kind, change.key)
      this.#send(change.revision, event)
    }
  }

  #sendMetrics(value: HostMetrics): void {
    if (this.#writable) this.#send(0, { $case: 'metrics', value })
  }

  #send(revision: number, event: Event): void {
    this.#writable = this.call.write({ revision, event })
  }
}
