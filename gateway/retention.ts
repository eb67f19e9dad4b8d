import type { Logger } from 'pino'
import { defaultLoginRetention, type LoginRetention } from './accounts/login-log.js'
import type { Store } from './store/store.js'

/** Limits for logs and stored answers. The maximum number of audit entries is set elsewhere (`auditKeep`). */
export interface Retention {
  readonly auditDays: number
  /** Hours for which the answer to a request with an Idempotency-Key is stored. */
  readonly repeatHours: number
  /** Maximum number of stored answers to requests with an Idempotency-Key, for all callers together. */
  readonly repeats: number
  readonly logins: LoginRetention
}

export const defaultRetention: Retention = {
  auditDays: 365,
  repeatHours: 24,
  repeats: 100_000,
  logins: defaultLoginRetention,
}

const everyMs = 60_000

/** Deletes old data at the start, when the store is available again, and every minute. Repeats failed steps later. */
export class Trimming {
  #timer: NodeJS.Timeout | undefined

  constructor(
    private readonly store: Store,
    private readonly trims: readonly (() => Promise<void>)[],
    private readonly log: Logger,
  ) {}

  start(): void {
    const trim = (): void => void this.trim()
    this.store.on('up', trim)
    if (this.store.ready()) trim()
    this.#timer = setInterval(trim, everyMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async trim(): Promise<void> {
    if (!this.store.ready()) return
    for (const trim of this.trims)
      await trim().catch((err: unknown) => this.log.warn({ err }, 'could not remove old log entries'))
  }
}
