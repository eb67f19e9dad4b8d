import { Throttle } from '../../shared/async/throttle.js'
import type { Store } from '../store/store.js'
import { keyNames } from './key-store.js'

/** Time and client address of the last use of a key. */
export interface KeyUse {
  readonly atMs: number
  readonly address: string
}

const flushEveryMs = 5000

/** Collects the uses of API keys. Writes the last use of each key every few seconds. */
export class KeyUsage {
  #pending = new Map<number, { atMs: number; address: string }>()
  readonly #flushes: Throttle

  constructor(
    private readonly store: Store,
    intervalMs = flushEveryMs,
  ) {
    this.#flushes = new Throttle(() => this.flush(), { intervalMs })
  }

  note(id: number, atMs: number, address: string): void {
    const use = this.#pending.get(id)
    if (use) {
      use.atMs = atMs
      use.address = address
      return
    }
    this.#pending.set(id, { atMs, address })
    this.#flushes.request()
  }

  async close(): Promise<void> {
    this.#flushes.close()
    await this.#flushes.settled()
    await this.flush()
  }

  /** Writes pending uses. If the store is down, they stay pending. */
  async flush(): Promise<void> {
    const writing = this.#pending
    if (writing.size === 0) return
    this.#pending = new Map()
    const fields = [...writing].map(([id, use]) => [String(id), `${use.atMs} ${use.address}`] as [string, string])
    try {
      await this.store.run('record the use of API keys', (client) => client.hSet(keyNames(this.store).used, fields))
    } catch {
      // A newer use of the same key must not be overwritten.
      for (const [id, use] of writing) if (!this.#pending.has(id)) this.#pending.set(id, use)
      this.#flushes.request()
    }
  }

  forget(id: number): void {
    this.#pending.delete(id)
  }

  /** Reads the last use of all keys, by their ids. @throws {BerthError} `store_unavailable` */
  async readAll(): Promise<Map<number, KeyUse>> {
    const stored = await this.store.run('read the use of API keys', (client) =>
      client.hGetAll(keyNames(this.store).used),
    )
    const uses = new Map(Object.entries(stored).map(([id, text]) => [Number(id), parseUse(text)]))
    for (const [id, use] of this.#pending) uses.set(id, { ...use })
    return uses
  }
}

function parseUse(text: string): KeyUse {
  const [atMs = '0', address = ''] = text.split(' ')
  return { atMs: Number(atMs), address }
}
