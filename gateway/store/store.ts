import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { describeError } from '../../shared/errors.js'
import { Confirmations, confirmTimeoutMs } from './confirmations.js'
import {
  connectStore,
  storeUnavailable,
  toStoreError,
  withTimeout,
  type StoreClient,
  type StoreConnection,
} from './connection.js'
import { detectWrites } from './detect-writes.js'
import { Invalidations, type InvalidationListener } from './invalidations.js'
import { trustMs } from './plan-visibility.js'
import { parseReplication, type Replication } from './replication.js'
import { ServerFinder, type ServerOptions } from './server-finder.js'
import { Transactions } from './transactions.js'
import { Visibility } from './visibility.js'

export type { StoreClient } from './connection.js'

export interface StoreOptions extends ServerOptions {
  prefix: string
  log: Logger
  /** Returns why the gateway's private Redis server is not running. "": not known, or the server is not private. */
  serverProblem?: () => string
}

/** A listener may return a promise. A write counts as visible at this gateway only when this promise has resolved. */
type Listener = () => unknown

const pingEveryMs = 400
const pingTimeoutMs = 1200
/** Time limit in ms of a ping on a connection for writes. An earlier WAIT (for replicas) may delay it. */
const writerPingTimeoutMs = confirmTimeoutMs + pingTimeoutMs
/** Maximum pause in ms between attempts to connect. With Sentinels it is short, because it prolongs a failover. */
const retryMaxMs = { server: 1000, sentinels: 200 }
/** Time limit in ms of an exchange with the server, including the time until all reported changes are in force. */
const renewTimeoutMs = 5000
/** Maximum number of exchanges until one was fast enough, so that the caches may be used. */
const trustAttempts = 3

interface ActiveConnection extends StoreConnection {
  /** Absent: writes need no confirmation. */
  readonly confirmations: Confirmations | undefined
}

/**
 * The Redis server that gateways share. Commands fail immediately while it is down. A server that stops answering
 * counts as down within 2 s, or within 3 s if only writes hang. After its return, it is used again within 2 s.
 *
 * No command is sent twice. A command whose answer was lost fails with `store_unavailable`.
 */
export class Store {
  readonly #server: ServerFinder
  #connection: ActiveConnection | undefined
  #unconfirmed = 0
  /** Time (performance.now()) up to which this process has applied all changes in the server. */
  #confirmed = -Infinity
  #applied = Promise.resolve()
  /** Number of exchanges with the server whose reported changes are not in force in this process yet. */
  #unapplied = 0
  readonly #renewals = new SingleFlight()
  #why = 'not connected yet'
  #closed = false
  #loop: Promise<void> | undefined
  readonly #stop = new AbortController()
  readonly #invalidations = new Invalidations()
  /** Tells when a write is visible at all gateways. */
  readonly visibility: Visibility
  readonly #listeners = { up: new Set<Listener>(), down: new Set<Listener>() }
  readonly #transactions = new Transactions(() => this.#connection)

  constructor(private readonly options: StoreOptions) {
    this.#server = new ServerFinder(options)
    this.visibility = new Visibility({
      publish: (message) => this.#connected().listening.publish(this.#channel, message),
      applied: () => this.#invalidations.applied(),
      log: options.log,
    })
  }

  /** Complete name of a key: the prefix, and the parts separated by colons. */
  key(...parts: readonly (string | number)[]): string {
    return this.options.prefix + parts.join(':')
  }

  /** Starts to connect, and tries again until it succeeds. */
  start(): void {
    this.#loop ??= this.#keepConnected()
  }

  /**
   * Waits until the store is connected, for callers that do not try again.
   * @throws {BerthError} `store_unavailable` if that takes longer than `timeoutMs`
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

  /** Reason why the store is not ready. "": it is ready. */
  reason(): string {
    return this.ready() ? '' : this.options.serverProblem?.() || this.#why
  }

  /** Time (performance.now()) up to which this process has applied all changes; -Infinity while the store is down. */
  confirmedAtMs(): number {
    return this.#connection ? this.#confirmed : -Infinity
  }

  /**
   * Waits until this process has applied all writes that any gateway acknowledged before this call. Usually this is
   * certain at once. After a pause of the process, it first reads the changes.
   * @throws {BerthError} `store_unavailable`
   */
  async current(): Promise<void> {
    for (let attempt = 0; performance.now() - this.confirmedAtMs() > trustMs; attempt++) {
      if (attempt === trustAttempts) throw storeUnavailable('the server answers too slowly')
      await this.#renewals
        .run(() => withTimeout(renewTimeoutMs, this.#renew()))
        .catch((cause: unknown) => {
          throw toStoreError(cause, 'apply the changes of other gateways')
        })
    }
  }

  async #renew(): Promise<void> {
    await this.#applied
    await this.ping()
    await this.#applied
  }

  on(event: 'up' | 'down', listener: Listener): void {
    this.#listeners[event].add(listener)
  }

  /**
   * Calls `listener` after each change, by any client, of a key that starts with `prefix`. `null`: any of these keys
   * may have changed. `prefix` must include the store's own prefix, see `key`. Writes count as visible at this gateway
   * when the promises of the listeners resolve. Call this before `start`. Drop cached data at the event `down`: changes
   * are not reported while the store is down.
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

  /** Reads how far the replicas are behind the master. @throws {BerthError} `store_unavailable` */
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
   *
   * If replicas are configured, waits until they confirm the result, even of a transaction that wrote nothing: it may
   * have read an earlier change that they have not confirmed yet.
   * @throws {BerthError} `store_unavailable`, or the error of `commands`
   */
  async transact<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    const { result, connection } = await this.#transactions.run(step, commands)
    const { confirmations } = connection
    if (confirmations) await this.#confirm(confirmations, step)
    return result
  }

  /**
   * Sends a PING and waits for the answer. Before the answer, the server reports all changes that it has acknowledged.
   * The caches may not be used while changes of an earlier exchange are not in force: other gateways would wait for
   * this gateway in vain.
   */
  async ping(): Promise<void> {
    const connection = this.#connection
    const serves = this.#unapplied === 0
    const sent = performance.now()
    await this.run('ping', (client) => withTimeout(pingTimeoutMs, this.#exchange(client, serves)))
    if (!serves) return
    this.#unapplied++
    this.#applied = this.#invalidations.applied().then(() => {
      this.#unapplied--
      if (connection === this.#connection) this.#confirmed = Math.max(this.#confirmed, sent)
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stop.abort()
    const connection = this.#connection
    if (connection) {
      // All earlier commands are answered before the ping.
      const last = Promise.all([connection.main.ping(), this.visibility.leave()])
      await withTimeout(pingTimeoutMs, last).catch(() => undefined)
      this.#drop(connection, 'closed')
    }
    await this.#loop
    this.#server.close()
  }

  get #channel(): string {
    return this.key('visibility')
  }

  /** Pings the server on the connections that reads and messages use. */
  async #exchange(main: StoreClient, serves: boolean): Promise<void> {
    const { listening } = this.#connected()
    await Promise.all([main.ping(), serves && this.visibility.serve(), listening.ping()])
  }

  #connected(): ActiveConnection {
    if (!this.#connection) throw storeUnavailable(this.#why)
    return this.#connection
  }

  async #confirm(confirmations: Confirmations, step: string): Promise<void> {
    await confirmations.confirm(step)
    this.#server.noteConfirmed()
  }

  async #keepConnected(): Promise<void> {
    for (let failures = 0; !this.#closed; failures++) {
      try {
        const connection = await this.#open()
        failures = -1
        await Promise.all([this.#watch(connection), this.#watchWriters(connection)])
      } catch (cause) {
        this.#noteFailure(cause, failures)
      }
      const maxMs = this.options.sentinels ? retryMaxMs.sentinels : retryMaxMs.server
      await this.#pause(Math.min(maxMs, 50 * 2 ** Math.max(0, failures)))
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
    const connection = { ...clients, confirmations: this.#confirmationsOf(clients) }
    if (this.#closed) {
      connection.destroy()
      return connection
    }
    this.#connection = connection
    this.#server.use(server)
    this.#confirmed = -Infinity
    this.visibility.connected()
    const { at } = server
    this.options.log.info(typeof at === 'string' ? {} : { master: `${at.host}:${at.port}` }, 'store: connected')
    this.#listeners.up.forEach((listener) => this.#invalidations.add(listener()))
    return connection
  }

  #confirmationsOf({ confirming: client }: StoreConnection): Confirmations | undefined {
    const { replicas } = this.#server
    return client && new Confirmations({ client, replicas, channel: this.key('confirm') })
  }

  /** Sends pings, and asks the Sentinels, until this connection is no longer the current one. */
  async #watch(connection: ActiveConnection): Promise<void> {
    while (this.#connection === connection) {
      await this.#pause(pingEveryMs)
      if (this.#connection !== connection || this.#closed) return
      const answered = this.ping().catch((cause: unknown) => this.#drop(connection, describeError(cause)))
      const checked = this.#server.check().then((why) => why !== '' && this.#drop(connection, why))
      await Promise.all([answered, checked])
    }
  }

  /** Pings the connections that are only used for writes. Their writes have no time limit to notice a failure. */
  async #watchWriters(connection: ActiveConnection): Promise<void> {
    const { exclusive, confirming } = connection
    while (this.#connection === connection) {
      await this.#pause(pingEveryMs)
      if (this.#connection !== connection) return
      const answered = Promise.all([exclusive.ping(), confirming?.ping()])
      await withTimeout(writerPingTimeoutMs, answered).catch((cause: unknown) =>
        this.#drop(connection, describeError(cause)),
      )
    }
  }

  #drop(connection: ActiveConnection, why: string): void {
    if (this.#connection !== connection) return
    this.#connection = undefined
    this.#unconfirmed += connection.confirmations?.failures ?? 0
    this.#why = why
    this.#listeners.down.forEach((listener) => listener())
    connection.destroy() // rejects pending commands
    if (!this.#closed) this.options.log.error({ why }, 'store: the connection was lost')
  }

  #noteFailure(cause: unknown, failures: number): void {
    const why = describeError(cause)
    if (failures === 0 || why !== this.#why) this.options.log.warn({ why }, 'store: the gateway cannot connect')
    this.#why = why
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined)
  }
}
