import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { WatchError } from 'redis'
import { Mutex } from '../../shared/async/mutex.js'
import { describeError } from '../../shared/errors.js'
import {
  connectStore,
  storeUnavailable,
  toStoreError,
  withTimeout,
  type StoreClient,
  type StoreConnection,
} from './connection.js'

export type { StoreClient } from './connection.js'

export interface StoreOptions {
  /** `redis://`, `rediss://` or `unix:///path`. */
  url: string
  /** Prefix of every key. */
  prefix: string
  log: Logger
  /** The reason why the server is not running, if this process manages it; "": not known. */
  serverProblem?: () => string
}

type InvalidationListener = (key: string | null) => void

const pingEveryMs = 400
const pingTimeoutMs = 1200
const retryMaxMs = 1000
const transactionAttempts = 25

/**
 * The store. Commands fail at once while it is down. A server that stops answering is noticed within 2 s, and used
 * again at most 2 s after it is back.
 */
export class Store {
  #connection: StoreConnection | undefined
  #confirmed = 0
  #why = 'not connected yet'
  #closed = false
  #loop: Promise<void> | undefined
  readonly #stop = new AbortController()
  readonly #tracked = new Map<string, InvalidationListener>()
  readonly #listeners = { up: new Set<() => void>(), down: new Set<() => void>() }
  readonly #transactions = new Mutex()

  constructor(private readonly options: StoreOptions) {}

  /** Full name of a key: the prefix, then the parts joined by colons. */
  key(...parts: readonly (string | number)[]): string {
    return this.options.prefix + parts.join(':')
  }

  /** Begins to connect, for as long as it takes. */
  start(): void {
    this.#loop ??= this.#keepConnected()
  }

  /**
   * Connects, for a command that runs once.
   * @throws {BerthError} `store_unavailable` if it is not reachable in time
   */
  async connected(timeoutMs: number): Promise<void> {
    const up = new Promise<void>((resolve) => this.on('up', resolve))
    this.start()
    await withTimeout(timeoutMs, up).catch((cause: unknown) => {
      throw storeUnavailable(this.#why, cause)
    })
  }

  ready(): boolean {
    return this.#connection !== undefined
  }

  /** The reason why the store is not ready; "" when it is. */
  reason(): string {
    return this.ready() ? '' : this.options.serverProblem?.() || this.#why
  }

  /** Time of performance.now() up to which no change in the server can have been missed; 0 while the store is down. */
  confirmedAtMs(): number {
    return this.#connection ? this.#confirmed : 0
  }

  on(event: 'up' | 'down', listener: () => void): void {
    this.#listeners[event].add(listener)
  }

  /**
   * Reports every change, by anybody, of a key that starts with `prefix` (with the store's own prefix, see `key`);
   * `null`: of any key. Call it before `start`. While the store is down nothing is reported: drop everything at `down`.
   */
  onInvalidate(prefix: string, listener: InvalidationListener): void {
    this.#tracked.set(prefix, listener)
  }

  /** @throws {BerthError} `store_unavailable` while it is down */
  get client(): StoreClient {
    if (!this.#connection) throw storeUnavailable(this.#why)
    return this.#connection.main
  }

  /**
   * Runs commands; converts their errors to BerthError.
   * @param step current step, for the error
   */
  async run<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    try {
      return await commands(this.client)
    } catch (cause) {
      throw toStoreError(cause, step)
    }
  }

  /**
   * Check and set: `commands` calls WATCH, reads, and returns the result of MULTI … EXEC. It runs again when a watched
   * key changed meanwhile. One at a time in this process.
   * @throws {BerthError} `store_unavailable`; also what `commands` throws
   */
  async transact<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    return this.#transactions.run(() => this.#attempt(step, commands))
  }

  /** One round trip; afterwards every change acknowledged before it has been reported here. */
  async ping(): Promise<void> {
    const connection = this.#connection
    const sent = performance.now()
    await this.run('ping', (client) => withTimeout(pingTimeoutMs, client.ping()))
    if (connection === this.#connection) this.#confirmed = sent
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stop.abort()
    const connection = this.#connection
    if (connection) {
      await withTimeout(pingTimeoutMs, connection.main.ping()).catch(() => undefined) // after it, everything sent before has been answered
      this.#drop(connection, 'closed')
    }
    await this.#loop
  }

  async #attempt<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      if (!this.#connection) throw storeUnavailable(step)
      const client = this.#connection.exclusive
      try {
        return await commands(client)
      } catch (cause) {
        if (cause instanceof WatchError && attempt < transactionAttempts) {
          await delay(Math.random() * attempt) // random, so that two that collide do not collide again
          continue
        }
        if (client.isReady) await client.unwatch().catch(() => undefined)
        throw toStoreError(cause, step)
      }
    }
  }

  async #keepConnected(): Promise<void> {
    for (let failures = 0; !this.#closed; failures++) {
      try {
        const connection = await this.#open()
        failures = -1
        await this.#watch(connection)
      } catch (cause) {
        this.#noteFailure(cause, failures)
      }
      await this.#pause(Math.min(retryMaxMs, 50 * 2 ** Math.max(0, failures)))
    }
  }

  async #open(): Promise<StoreConnection> {
    const sent = performance.now()
    const connection: StoreConnection = await connectStore(
      this.options.url,
      [...this.#tracked.keys()],
      (key) => this.#invalidate(key),
      (cause) => this.#drop(connection, describeError(cause)),
    )
    if (this.#closed) {
      connection.destroy()
      return connection
    }
    this.#connection = connection
    this.#confirmed = sent
    this.options.log.info('store: connected')
    this.#listeners.up.forEach((listener) => listener())
    return connection
  }

  /** Pings until another connection is the current one. */
  async #watch(connection: StoreConnection): Promise<void> {
    while (this.#connection === connection) {
      await this.#pause(pingEveryMs)
      if (this.#connection !== connection) return
      const answered = this.ping().catch((cause: unknown) => this.#drop(connection, describeError(cause)))
      await answered
    }
  }

  #drop(connection: StoreConnection, why: string): void {
    if (this.#connection !== connection) return
    this.#connection = undefined
    this.#why = why
    this.#listeners.down.forEach((listener) => listener())
    connection.destroy() // rejects pending commands
    if (!this.#closed) this.options.log.error({ why }, 'store: connection lost')
  }

  #invalidate(key: string | null): void {
    for (const [prefix, listener] of this.#tracked) if (key === null || key.startsWith(prefix)) listener(key)
  }

  #noteFailure(cause: unknown, failures: number): void {
    const why = describeError(cause)
    if (failures === 0 || why !== this.#why) this.options.log.warn({ why }, 'store: cannot connect')
    this.#why = why
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined)
  }
}
