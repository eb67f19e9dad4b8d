import type { Store, StoreClient } from './store.js'

const maxRecords = 20_000

interface Load<T> {
  readonly result: Promise<T | undefined>
  /** True if the record has changed while it was being read. */
  stale: boolean
}

/**
 * Caches records of one kind. Each record is a string in the store. The store reports all changes. While it is down,
 * nothing is cached. Missing records are never cached, so that unknown ids use no memory. Create the object before
 * `store.start()`.
 */
export class WatchedRecords<T> {
  readonly #known = new Map<string, T>()
  readonly #loads = new Map<string, Load<T>>()
  readonly #prefix: string

  /** @param name beginning of the records' keys in Redis; a colon and the id of the record follow */
  constructor(
    private readonly store: Store,
    private readonly name: string,
    private readonly parse: (text: string) => T,
  ) {
    this.#prefix = store.key(name, '')
    store.onInvalidate(this.#prefix, (key) =>
      key === null ? this.#clear() : this.forget(key.slice(this.#prefix.length)),
    )
    store.on('down', () => this.#clear())
  }

  key(id: string): string {
    return this.#prefix + id
  }

  /** Returns a record, from memory if possible. @throws {BerthError} `store_unavailable` */
  async find(id: string): Promise<T | undefined> {
    return this.#known.get(id) ?? this.#load(id)
  }

  /** Drops a cached record and marks running reads of it as stale. Call it after this process changed the record. */
  forget(id: string): void {
    this.#known.delete(id)
    const load = this.#loads.get(id)
    if (load) load.stale = true
  }

  #clear(): void {
    this.#known.clear()
    for (const load of this.#loads.values()) load.stale = true
  }

  /** Reads a record. Concurrent callers share one read. */
  async #load(id: string): Promise<T | undefined> {
    const running = this.#loads.get(id)
    if (running) return running.result
    const result = this.store.run(`read ${this.name}`, (client) => this.#read(client, id))
    const load = { result: result.finally(() => this.#loads.delete(id)), stale: false }
    this.#loads.set(id, load)
    return load.result
  }

  async #read(client: StoreClient, id: string): Promise<T | undefined> {
    for (;;) {
      const before = this.#loads.get(id)
      if (before) before.stale = false
      const text = await client.get(this.key(id))
      const load = this.#loads.get(id)
      if (load?.stale && this.store.ready()) continue
      const record = text === null ? undefined : this.parse(text)
      if (record !== undefined && load && !load.stale) this.#keep(id, record)
      return record
    }
  }

  #keep(id: string, record: T): void {
    if (this.#known.size >= maxRecords) this.#known.clear()
    this.#known.set(id, record)
  }
}
