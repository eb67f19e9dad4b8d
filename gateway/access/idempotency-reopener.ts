import type { Store } from '../store/store.js'
import type { IdempotencyRecord } from './idempotency-record.js'

const retryMs = 500
/** Maximum number of records in `#waiting`. If there are more, some ended requests stay marked as running. */
const maxRecords = 10_000

/**
 * After a failed write, the store can show an ended request as running, so that clients cannot repeat it. This class
 * marks the record of the request as open (not running) as soon as the store is available.
 */
export class IdempotencyReopener {
  /** Records of ended requests that the store possibly still shows as running, by record id. */
  readonly #waiting = new Map<string, IdempotencyRecord>()
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly store: Store) {}

  add(id: string, record: IdempotencyRecord): void {
    if (this.#waiting.size >= maxRecords) return
    this.#waiting.set(id, record)
    this.#schedule()
  }

  #schedule(): void {
    if (!this.#timer) this.#timer = setTimeout(() => void this.#reopenAll(), retryMs).unref()
  }

  async #reopenAll(): Promise<void> {
    try {
      for (const [id, record] of this.#waiting) {
        await this.#reopen(id, record)
        if (this.#waiting.get(id) === record) this.#waiting.delete(id)
      }
    } catch {
      // The store is not available yet, so the record stays in `#waiting`.
    }
    this.#timer = undefined
    if (this.#waiting.size > 0) this.#schedule()
  }

  /** Marks a request as not running, so that it can be repeated. Does nothing if an attempt has changed the record. */
  async #reopen(id: string, { operationId, attempt }: IdempotencyRecord): Promise<void> {
    await this.store.transact('record the end of a request', async (client) => {
      await client.watch(id)
      const text = await client.get(id)
      const found = text === null ? undefined : (JSON.parse(text) as IdempotencyRecord)
      const isSame = found?.operationId === operationId && found.attempt === attempt
      if (!isSame || found.state !== 'running') return void (await client.unwatch())
      const open = JSON.stringify({ ...found, state: 'open' })
      await client.multi().set(id, open, { expiration: 'KEEPTTL' }).exec()
    })
  }
}
