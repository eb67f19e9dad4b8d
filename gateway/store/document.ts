import type { Logger } from 'pino'
import { storeUnavailable } from './connection.js'
import type { Store } from './store.js'

export interface DocumentOptions<T> {
  readonly store: Store
  /** Of the key, after the prefix. */
  readonly name: string
  /** Until somebody changes it. */
  readonly initial: T
  readonly log: Logger
}

interface Version<T> {
  readonly version: number
  readonly value: T
}

/**
 * A small document that all gateways share: settings of the whole installation. Held in memory; a change by any
 * gateway is known to all at once, and what was known last stays in force while the store is down. To be made
 * before `store.start()`.
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

  /** @throws {BerthError} `store_unavailable` until the store was reached once */
  get current(): T {
    if (this.#known === undefined) throw storeUnavailable(`read ${this.options.name}`)
    return this.#known.value
  }

  /** Called with each change, this gateway's own too, once it is in force here. */
  onChange(listener: (value: T) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * In force here and in the store when it resolves. Compare and set: `change` runs again where another gateway
   * changed it meanwhile.
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

  async #reload(): Promise<void> {
    const { store, name, log } = this.options
    if (!store.ready()) return
    const before = this.#known
    try {
      const read = this.#parse(await store.run(`read ${name}`, (client) => client.get(this.#key)))
      // A store that was emptied begins anew; but a change since is newer than nothing, and is told of too.
      if (read.version > 0 || this.#known === before) this.#learn(read)
    } catch (err) {
      log.error({ err }, `read ${name}`)
    }
  }

  #parse(text: string | null): Version<T> {
    if (text === null) return { version: 0, value: this.options.initial }
    return JSON.parse(text) as Version<T>
  }

  /** Answers may overtake each other. */
  #learn(read: Version<T>): void {
    if (this.#known && read.version !== 0 && read.version <= this.#known.version) return
    this.#known = read
    for (const listener of this.#listeners) listener(read.value)
  }
}
