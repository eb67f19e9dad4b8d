import type { Store } from '../store/store.js'
import type { AccountTransaction } from './account-store.js'

/** Longest delay before the store is notified of a use. */
const writeEveryMs = 60_000
const maxKnown = 20_000

interface ActivityTimes {
  atMs: number
  writtenMs: number
}

/**
 * Time of the last use of each session, so that idle ones end: one key per session in the store, which expires then.
 */
export class SessionActivity {
  readonly #seen = new Map<string, ActivityTimes>()

  constructor(private readonly store: Store) {}

  /**
   * Records a use.
   * @returns false when the session was idle for too long at all gateways
   * @throws {BerthError} `store_unavailable`
   */
  async note(digest: string, idleMs: number, nowMs: number): Promise<boolean> {
    const seen = this.#seen.get(digest)
    if (seen === undefined || nowMs - seen.atMs >= idleMs) return this.#resume(digest, idleMs, nowMs)
    seen.atMs = nowMs
    if (nowMs - seen.writtenMs >= Math.min(writeEveryMs, idleMs / 4)) {
      seen.writtenMs = nowMs
      // A failed write is repeated by a later use.
      this.#write(digest, idleMs, nowMs).catch(() => (seen.writtenMs = 0))
    }
    return true
  }

  /** True if it was used recently, here or at another gateway. @throws {BerthError} `store_unavailable` */
  async isAlive(digest: string, idleMs: number, nowMs: number): Promise<boolean> {
    const seen = this.#seen.get(digest)
    if (seen !== undefined && nowMs - seen.atMs < idleMs) return true
    const found = await this.store.run('read the use of a session', (client) => client.exists(this.key(digest)))
    return found === 1
  }

  /** Records the first use of a session, in the transaction that creates it. */
  begin(multi: AccountTransaction, digest: string, { idleMs, atMs }: { idleMs: number; atMs: number }): void {
    multi.set(this.key(digest), String(atMs), { expiration: { type: 'PX', value: idleMs } })
  }

  /** By digest, ms since 1970; absent: idle for too long. @throws {BerthError} `store_unavailable` */
  async readAll(digests: readonly string[]): Promise<Map<string, number>> {
    if (digests.length === 0) return new Map()
    const texts = await this.store.run('read the use of sessions', (client) =>
      client.mGet(digests.map((digest) => this.key(digest))),
    )
    const stored = digests.flatMap((digest, at) => {
      const own = this.#seen.get(digest)?.atMs ?? 0
      const text = texts[at]
      return typeof text === 'string' ? [[digest, Math.max(own, Number(text))] as const] : []
    })
    return new Map(stored)
  }

  forget(digest: string): void {
    this.#seen.delete(digest)
  }

  key(digest: string): string {
    return this.store.key('session-seen', digest)
  }

  /** Reads the store, since it may have been used at another gateway. */
  async #resume(digest: string, idleMs: number, nowMs: number): Promise<boolean> {
    const alive = await this.store.run('read the use of a session', (client) =>
      client.set(this.key(digest), String(nowMs), {
        condition: 'XX',
        expiration: { type: 'PX', value: idleMs },
      }),
    )
    if (alive === null) return false
    if (this.#seen.size >= maxKnown) this.#seen.clear()
    this.#seen.set(digest, { atMs: nowMs, writtenMs: nowMs })
    return true
  }

  /** Only updates an existing key: an ended session is not revived. */
  async #write(digest: string, idleMs: number, nowMs: number): Promise<void> {
    await this.store.run('note the use of a session', (client) =>
      client.set(this.key(digest), String(nowMs), {
        condition: 'XX',
        expiration: { type: 'PX', value: idleMs },
      }),
    )
  }
}
