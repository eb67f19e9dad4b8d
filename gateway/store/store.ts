import type { Logger } from 'pino'
import { describeError } from '../../shared/errors.js'
import { CacheTrust } from './cache-trust.js'
import { Confirmations } from './confirmations.js'
import {
  connectStore,
  storeUnreachable,
  toStoreError,
  withTimeout,
  type StoreClient,
  type StoreConnection,
} from './connection.js'
import { detectWrites } from './detect-writes.js'
import { Invalidations, type InvalidationListener } from './invalidations.js'
import { parseReplication, type Replication } from './replication.js'
import { ServerFinder, type ServerOptions } from './server-finder.js'
import { Transactions } from './transactions.js'
import { Visibility } from './visibility.js'
import { pause, watchConnection } from './watch-connection.js'

export type { StoreClient } from './connection.js'

export interface StoreOptions extends ServerOptions {
  prefix: string
  log: Logger
  /** Returns why the gateway's private Redis server is not running. "": not known, or the server is not private. */
  serverProblem?: () => string
}

/** A listener can return a promise. A write counts as visible at this gateway only when this promise has resolved. */
type Listener = () => unknown

/** Maximum pause in ms between attempts to connect. With Sentinels it is short, because pauses lengthen a failover. */
const retryMaxMs = { server: 1000, sentinels: 200 }

interface ActiveConnection extends StoreConnection {
  /** Confirmations by replicas. Absent: writes need no confirmation. */
  readonly confirmations: Confirmations | undefined
}

/**
 * The Redis server that gateways share. While it is down, commands fail immediately. With Sentinels, a master that does
 * not answer counts as down within 2 s, or within 3 s if only writes hang. Without Sentinels, the server has 10 s to
 * answer, because no other server can replace it. When a server answers again, it is used within 2 s.
 * No command is sent twice. A command whose answer was lost fails with `store_unavailable`.
 */
export class Store {
  readonly #server: ServerFinder
  #connection: ActiveConnection | undefined
  #unconfirmed = 0
  #why = 'the gateway has not connected to it yet'
  #loop: Promise<void> | undefined
  readonly #stop = new AbortController()
  readonly #invalidations = new Invalidations()
  /** Waits until writes are visible at all gateways. */
  readonly visibility: Visibility
  readonly #listeners = { up: new Set<Listener>(), down: new Set<Listener>() }
  readonly #transactions = new Transactions(() => this.#connection)
  protected readonly trust = new CacheTrust({
    exchange: (serves) => this.run('ping', () => this.#exchange(serves)),
    applied: () => this.#invalidations.applied(),
  })

  constructor(private readonly options: StoreOptions) {
    this.#server = new ServerFinder(options)
    this.visibility = new Visibility({
      publish: (message) => this.#connected().listening.publish(this.#channel, message),
      applied: () => this.#invalidations.applied(),
      log: options.log,
    })
  }

  /** Returns the complete name of a key: the prefix, and the parts separated by colons. */
  key(...parts: readonly (string | number)[]): string {
    return this.options.prefix + parts.join(':')
  }

  /** Starts to connect to the Redis server, and repeats failed attempts until one succeeds. */
  start(): void {
    this.#loop ??= this.#keepConnected()
  }

  /**
   * Waits until the store is connected. Used by callers that do not repeat their work.
   * @throws {BerthError} `store_unavailable` after `timeoutMs`
   */
  async connected(timeoutMs: number): Promise<void> {
    const up = new Promise<void>((resolve) => this.on('up', resolve))
    this.start()
    await withTimeout(timeoutMs, up).catch((cause: unknown) => {
      throw storeUnreachable(this.#why, cause)
    })
  }

  ready(): boolean {
    return this.#connection !== undefined
  }

  /** Reason why the store is not ready. "": it is ready. */
  reason(): string {
    return this.ready() ? '' : this.options.serverProblem?.() || this.#why
  }

  /** Time (performance.now()) up to which this process has applied all changes; -Infinity while the store is down. */
  confirmedAtMs(): number {
    return this.trust.confirmedMs
  }

  /**
   * Waits until this process has applied all writes that any gateway acknowledged before this call. Usually they are
   * already applied. After a pause of the process, changes must be read first.
   * @throws {BerthError} `store_unavailable`
   */
  async current(): Promise<void> {
    await this.trust.ensure()
  }

  on(event: 'up' | 'down', listener: Listener): void {
    this.#listeners[event].add(listener)
  }

  /**
   * Calls `listener` with each key that starts with `prefix`, after any client has changed the key. The key is `null`
   * if any of these keys can have changed. `prefix` must include the prefix of the store (see `key`). A write counts as
   * visible at this gateway when the listeners' promises resolve. Call this before `start`. Listeners must drop cached
   * data at the event `down`, because no changes are reported while the store is down.
   */
  onInvalidate(prefix: string, listener: InvalidationListener): void {
    this.#invalidations.listen(prefix, listener)
  }

  /** Connection for commands that no replica has to confirm. @throws {BerthError} `store_unavailable` */
  get client(): StoreClient {
    return this.#connected().main
  }

  /** Number of replicas that must confirm a write before it counts as done. */
  get confirmingReplicas(): number {
    return this.#server.replicas
  }

  /** True if a write only counts as done after replicas have confirmed it. */
  get needsConfirmation(): boolean {
    return this.confirmingReplicas > 0
  }

  /** Number of times since the start of this process that another Redis server became the master. */
  get failovers(): number {
    return this.#server.failovers
  }

  /** Number of times that too few replicas confirmed writes in time, since the start of this process. */
  get unconfirmed(): number {
    return this.#unconfirmed + (this.#connection?.confirmations?.failures ?? 0)
  }

  /** Reads the number of replicas and their delay. @throws {BerthError} `store_unavailable` */
  async readReplication(): Promise<Replication> {
    return parseReplication(await this.run('read the replication', (client) => client.info('replication')))
  }

  /**
   * Runs commands. If replicas are configured, waits until these have confirmed the writes. Errors become BerthError.
   * @param step description of the commands, for errors
   */
  async run<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    try {
      const { main, confirmations } = this.#connected()
      if (!confirmations) return await commands(main)
      const writes = detectWrites(main)
      const result = await commands(writes.client)
      if (writes.hasWritten) await this.#confirm(confirmations, step)
      return result
    } catch (cause) {
      throw toStoreError(cause, step)
    }
  }

  /**
   * Runs a transaction: `commands` calls WATCH, reads, and returns the result of MULTI … EXEC. If a watched key has
   * changed, `commands` runs again. This process runs one transaction at a time.
   * If replicas are configured, waits until they confirm the result. This applies even to a transaction that wrote
   * nothing, because it can have read a change that is not confirmed yet.
   * @throws {BerthError} `store_unavailable`, or the error of `commands`
   */
  async transact<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    const { result, connection } = await this.#transactions.run(step, commands)
    const { confirmations } = connection
    if (confirmations) await this.#confirm(confirmations, step)
    return result
  }

  /** Sends a PING. Before it answers, the server reports to this gateway all changes acknowledged to any client. */
  async ping(): Promise<void> {
    await this.trust.exchange()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    const connection = this.#connection
    if (connection) {
      // Redis answers in order, so the last ping is answered after all earlier commands.
      const last = Promise.all([connection.main.ping(), this.visibility.leave()])
      await withTimeout(connection.answerTimeoutMs, last).catch(() => undefined)
      this.#drop(connection, 'closed')
    }
    await this.#loop
    this.#server.close()
  }

  get #channel(): string {
    return this.key('visibility')
  }

  /** Pings the server on the connections that reads and messages use. */
  async #exchange(serves: boolean): Promise<void> {
    const { main, listening, answerTimeoutMs } = this.#connected()
    const answers = Promise.all([main.ping(), serves && this.visibility.serve(), listening.ping()])
    await withTimeout(answerTimeoutMs, answers)
  }

  #connected(): ActiveConnection {
    if (!this.#connection) throw storeUnreachable(this.#why)
    return this.#connection
  }

  async #confirm(confirmations: Confirmations, step: string): Promise<void> {
    await confirmations.confirm(step)
    this.#server.noteConfirmed()
  }

  async #keepConnected(): Promise<void> {
    for (let failures = 0; !this.#stop.signal.aborted; failures++) {
      try {
        const connection = await this.#open()
        failures = -1
        await this.#watch(connection)
      } catch (cause) {
        this.#noteFailure(cause, failures)
      }
      const maxMs = this.options.sentinels ? retryMaxMs.sentinels : retryMaxMs.server
      await pause(Math.min(maxMs, 50 * 2 ** Math.max(0, failures)), this.#stop.signal)
    }
  }

  async #open(): Promise<ActiveConnection> {
    const server = await this.#server.find()
    const clients: StoreConnection = await connectStore(server, {
      tracked: this.#invalidations.prefixes,
      channel: this.#channel,
      onInvalidate: (key) => this.#invalidations.report(key),
      onMessage: (message) => this.visibility.receive(message),
      onLost: (cause) => this.#drop(connection, describeError(cause)),
    })
    const { replicas } = this.#server
    const confirmer = clients.confirming && { client: clients.confirming, replicas, channel: this.key('confirm') }
    const connection = { ...clients, confirmations: confirmer && new Confirmations(confirmer) }
    if (this.#stop.signal.aborted) {
      connection.destroy()
      return connection
    }
    this.#connection = connection
    this.#server.use(server)
    this.visibility.connected()
    const { at } = server
    this.options.log.info(typeof at === 'string' ? {} : { master: `${at.host}:${at.port}` }, 'store: connected')
    this.#listeners.up.forEach((listener) => this.#invalidations.add(listener()))
    return connection
  }

  #watch(connection: ActiveConnection): Promise<void> {
    return watchConnection({
      connection,
      isCurrent: () => this.#connection === connection,
      ping: () => this.ping(),
      checkServer: () => this.#server.check(),
      drop: (why) => this.#drop(connection, why),
      stop: this.#stop.signal,
    })
  }

  #drop(connection: ActiveConnection, why: string): void {
    if (this.#connection !== connection) return
    this.#connection = undefined
    this.trust.reset()
    this.#unconfirmed += connection.confirmations?.failures ?? 0
    this.#why = why
    this.#listeners.down.forEach((listener) => listener())
    connection.destroy() // rejects pending commands
    if (!this.#stop.signal.aborted) this.options.log.error({ why }, 'store: the connection was lost')
  }

  #noteFailure(cause: unknown, failures: number): void {
    const why = describeError(cause)
    if (failures === 0 || why !== this.#why) this.options.log.warn({ why }, 'store: the gateway cannot connect')
    this.#why = why
  }
}
