import type { Logger } from 'pino'
import { storeUnavailable } from './connection.js'
import type { Lease } from './lease.js'
import type { Store } from './store.js'

export interface DocumentOptions<T> {
  readonly store: Store
  /** Name of the document's key without the store's prefix. */
  readonly name: string
  /** Value of the document until it is changed for the first time. */
  readonly initial: T
  readonly log: Logger
}

interface Version<T> {
  readonly version: number
  readonly value: T
}

/**
 * A small document with settings that all gateways share. Each gateway caches the document and is notified of changes.
 * While the store is down, the last known value is used. Create the object before `store.start()`.
 */
export class StoredDocument<T> {
  #known: Version<T> | undefined
  readonly #key: string
  readonly #listeners = new Set<(value: T) => void>()

  constructor(private readonly options: DocumentOptions<T>) {
    const { store, name } = options
    this.#key = store.key(name)
    // `onInvalidate` takes a prefix. Other keys that begin with this key are therefore ignored here.
    store.onInvalidate(this.#key, (key) => (key === null || key === this.#key ? this.#reload() : undefined))
    store.on('up', () => this.#reload(true))
  }

  /** The document's value. `undefined`: the store has not been reached yet. */
  get value(): T | undefined {
    return this.#known?.value
  }

  /** The document's value. @throws {BerthError} `store_unavailable` if the store has not been reached yet */
  get current(): T {
    if (this.#known === undefined) throw storeUnavailable(`read ${this.options.name}`)
    return this.#known.value
  }

  /** Calls the listener after each change of the document, by any gateway, as soon as `value` returns the new value. */
  onChange(listener: (value: T) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * Changes the document. The change is stored and in force in this process when the promise resolves. `change` runs
   * again if another gateway has changed the document in the meantime.
   * @param lease lease without which this process must not change the document
   * @throws {BerthError} `store_unavailable`, `lease_lost`, or the error of `change`
   */
  async update(change: (old: T) => T, lease?: Lease): Promise<T> {
    const next = await this.options.store.transact(`change ${this.options.name}`, async (client) => {
      await lease?.guard(client)
      await client.watch(this.#key)
      const old = this.#parse(await client.get(this.#key))
      const changed = { version: old.version + 1, value: change(old.value) }
      await client.multi().set(this.#key, JSON.stringify(changed)).exec()
      return changed
    })
    this.#learn(next)
    return next.value
  }

  /** Reads the document again. Used if another gateway has perhaps just changed it. */
  refresh(): Promise<void> {
    return this.#reload()
  }

  /**
   * @param isNewServer true if this is possibly another Redis server, which lacks unconfirmed changes of the former
   * one. The document of the new server then replaces the known value, even with an older version.
   */
  async #reload(isNewServer = false): Promise<void> {
    const { store, name, log } = this.options
    if (!store.ready()) return
    const before = this.#known
    try {
      const read = this.#parse(await store.run(`read ${name}`, (client) => client.get(this.#key)))
      if (isNewServer && this.#known === before) return this.#replace(read)
      // Version 0: the store was emptied. The initial value then applies, unless this process has just made a change.
      if (read.version > 0 || this.#known === before) this.#learn(read)
    } catch (err) {
      log.error({ err }, `could not read ${name} from the store`)
    }
  }

  #parse(text: string | null): Version<T> {
    if (text === null) return { version: 0, value: this.options.initial }
    return JSON.parse(text) as Version<T>
  }

  #replace(read: Version<T>): void {
    if (JSON.stringify(read) === JSON.stringify(this.#known)) return
    this.#known = undefined
    this.#learn(read)
  }

  /** Applies a value that was read. Ignores older versions, because answers can arrive out of order. */
  #learn(read: Version<T>): void {
    if (this.#known?.version === read.version) return
    if (this.#known && read.version !== 0 && read.version < this.#known.version) return
    this.#known = read
    for (const listener of this.#listeners) listener(read.value)
  }
}
