import type { Store } from '../store/store.js'
import type { AccountTransaction } from './account-store.js'

/** Maximum delay in ms before the use of a session is written to the store. */
const writeEveryMs = 60_000
const maxKnown = 20_000

interface ActivityTimes {
  atMs: number
  writtenMs: number
}

/** Times of the last use of sessions. Each session has a key in the store that expires when the session is idle. */
export class SessionActivity {
  readonly #seen = new Map<string, ActivityTimes>()

  constructor(private readonly store: Store) {}

  /**
   * Records a use of a session.
   * @returns false if no gateway has seen a use of the session for `idleMs`
   * @throws {BerthError} `store_unavailable`
   */
  async note(digest: string, idleMs: number, nowMs: number): Promise<boolean> {
    const seen = this.#seen.get(digest)
    if (seen === undefined || nowMs - seen.atMs >= idleMs) return this.#resume(digest, idleMs, nowMs)
    seen.atMs = nowMs
    if (nowMs - seen.writtenMs >= Math.min(writeEveryMs, idleMs / 4)) {
      seen.writtenMs = nowMs
      // After a failed write, the next use of the session writes again.
      this.#write(digest, idleMs, nowMs).catch(() => (seen.writtenMs = 0))
    }
    return true
  }

  /** True if any gateway has seen a use of the session within `idleMs`. @throws {BerthError} `store_unavailable` */
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

  /**
   * Reads the last use of sessions, by digest, in ms since 1970. Sessions that were idle for too long are absent.
   * @throws {BerthError} `store_unavailable`
   */
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

  /** Asks the store whether another gateway has seen a use of the session. */
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

  /** Changes only an existing key in the store. Otherwise, a session that has ended would become valid again. */
  async #write(digest: string, idleMs: number, nowMs: number): Promise<void> {
    await this.store.run('record the use of a session', (client) =>
      client.set(this.key(digest), String(nowMs), {
        condition: 'XX',
        expiration: { type: 'PX', value: idleMs },
      }),
    )
  }
}
