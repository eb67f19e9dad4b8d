import type { Logger } from 'pino'
import { storeUnavailable } from './connection.js'
import type { Store } from './store.js'

export interface DocumentOptions<T> {
  readonly store: Store
  /** Name of the key, after the prefix. */
  readonly name: string
  /** Value until the first change. */
  readonly initial: T
  readonly log: Logger
}

interface Version<T> {
  readonly version: number
  readonly value: T
}

/**
 * A small document with settings of the whole installation, shared by all gateways. Cached in memory: every gateway
 * learns of a change at once, and retains the last known value while the store is down. Create it before
 * `store.start()`.
 */
export class StoredDocument<T> {
  #known: Version<T> | undefined
  readonly #key: string
  readonly #listeners = new Set<(value: T) => void>()

  constructor(private readonly options: DocumentOptions<T>) {
    const { store, name } = options
    this.#key = store.key(name)
    store.onInvalidate(this.#key, () => void this.#reload())
    store.on('up', () => void this.#reload())
  }

  /** `undefined`: the store has not been reached yet. */
  get value(): T | undefined {
    return this.#known?.value
  }

  /** @throws {BerthError} `store_unavailable` until the store has been reached once */
  get current(): T {
    if (this.#known === undefined) throw storeUnavailable(`read ${this.options.name}`)
    return this.#known.value
  }

  /** Calls back after each change, also by this gateway, once it is in force here. */
  onChange(listener: (value: T) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * Changes the document; in force here and in the store when it resolves. Compare and set: `change` runs again when
   * another gateway changed it meanwhile.
   * @throws {BerthError} `store_unavailable`, and what `change` throws
   */
  async update(change: (old: T) => T): Promise<T> {
    const next = await this.options.store.transact(`change ${this.options.name}`, async (client) => {
      await client.watch(this.#key)
      const old = this.#parse(await client.get(this.#key))
      const changed = { version: old.version + 1, value: change(old.value) }
      await client.multi().set(this.#key, JSON.stringify(changed)).exec()
      return changed
    })
    this.#learn(next)
    return next.value
  }

  /** Reads it again, for callers that must not use a value that another gateway has just changed. */
  refresh(): Promise<void> {
    return this.#reload()
  }

  async #reload(): Promise<void> {
    const { store, name, log } = this.options
    if (!store.ready()) return
    const before = this.#known
    try {
      const read = this.#parse(await store.run(`read ${name}`, (client) => client.get(this.#key)))
      // An emptied store resets the document, unless it was changed since the read began: that change is newer.
      if (read.version > 0 || this.#known === before) this.#learn(read)
    } catch (err) {
      log.error({ err }, `read ${name}`)
    }
  }

  #parse(text: string | null): Version<T> {
    if (text === null) return { version: 0, value: this.options.initial }
    return JSON.parse(text) as Version<T>
  }

  /** Ignores older versions, as answers may arrive out of order. */
  #learn(read: Version<T>): void {
    if (this.#known && read.version !== 0 && read.version <= this.#known.version) return
    this.#known = read
    for (const listener of this.#listeners) listener(read.value)
  }
}
