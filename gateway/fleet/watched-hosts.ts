import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { Coalescer } from '../../shared/async/coalescer.js'
import { notFound } from '../../shared/errors.js'
import type { CertificateIdentity } from '../../shared/identity.js'
import type { GrpcAgentClient } from './agents/agent-client.js'
import { offlineError } from './agents/agent-link.js'
import type { GuestView } from './contract.js'
import type { GuestCache, StoredGuest } from './guest-cache.js'
import type { HostRecord } from './host-record.js'
import type { HostState } from './host-state.js'
import type { HostCheck, HostList, HostStore } from './host-store.js'
import { HostWatcher, type WatcherOptions } from './host-watcher.js'
import type { GuestOwners } from './placement/guest-owners.js'
import type { FleetState } from './view.js'

/**
 * Time in ms after the gateway's start in which hosts that were online before are expected to connect. Perhaps their
 * agents were restarted together with the gateway. A restart takes seconds on a busy host.
 */
const returnMs = 10_000

/** Number of hosts whose stored guests are read in one step. */
const hostsPerRead = 4

export interface WatchedHostsOptions {
  readonly view: FleetState
  readonly store: HostStore
  readonly cache: GuestCache
  readonly log: Logger
  readonly owners: GuestOwners
  readonly watcherOptions: Omit<WatcherOptions, 'expectedMs'>
}

/**
 * The hosts in the store, each with a watcher. Applies changes by other gateways. Removes a host only if the store
 * lists it as removed. Any other missing record is written again, in case the store was emptied or restored.
 */
export class WatchedHosts {
  readonly #watchers = new Map<string, HostWatcher>()
  /** Ids of hosts that were removed from the fleet. Lists of hosts from before the removal must not add them again. */
  readonly #removed = new Set<string>()
  #complete = false
  #stopped = false
  readonly #reads = new Coalescer(() => this.#quietly('read the hosts from the store', () => this.#applyList()))
  readonly #restores = new Coalescer(() => this.#quietly('write hosts to the store again', () => this.#restoreLost()))
  /** The list of hosts that was applied last. `undefined`: no list has been applied yet. */
  #list: HostList | undefined
  /** True from `onNewServer` until a list of hosts from the new server is applied. */
  #isNewServer = false
  /** Monotonic time in ms when this gateway began to serve clients. Calls wait for hosts until `returnMs` later. */
  #startedMs: number | undefined
  readonly #watcherOptions: WatcherOptions

  constructor(private readonly options: WatchedHostsOptions) {
    this.#watcherOptions = { ...options.watcherOptions, expectedMs: (hostId) => this.#expectedMs(hostId) }
    options.store.onNewServer(() => (this.#isNewServer = true))
    options.store.onChange(() => {
      const applied = this.#reads.run()
      void applied.then(() => this.#restores.run())
      return applied
    })
  }

  /** True if the list of hosts has been read from the store. */
  get isComplete(): boolean {
    return this.#complete
  }

  /** True if an administrator has removed the host from the fleet. */
  isRemoved(hostId: string): boolean {
    return this.#removed.has(hostId)
  }

  watchers(): Iterable<HostWatcher> {
    return this.#watchers.values()
  }

  /** Watchers of the hosts that can be called now. */
  connected(): HostWatcher[] {
    return [...this.#watchers.values()].filter(({ client }) => client.link.ready() !== undefined)
  }

  /** Returns the calls to the agent of a host. @throws {BerthError} `not_found`, `host_offline` */
  agent(hostId: string): GrpcAgentClient {
    const host = this.options.view.findState(hostId)
    if (!host) throw notFound('host')
    const client = this.#watchers.get(hostId)?.client
    if (!client?.link.isUsable) throw offlineError(host)
    return client
  }

  /** Certificate of the host's agent on the present connection. `undefined`: the host is not connected. */
  peerOf(hostId: string): CertificateIdentity | undefined {
    return this.#watchers.get(hostId)?.connection?.peer()
  }

  /**
   * True if this gateway's certificate `serial` is used on all present connections to hosts that the CA certified.
   * @param issuer fingerprint of the CA
   */
  useLeaf(issuer: string, serial: string): boolean {
    return [...this.#watchers.values()].every(
      ({ host, liveConnection }) =>
        host.record.issuer !== issuer || !liveConnection || liveConnection.target.leaf.serial === serial,
    )
  }

  stop(): void {
    this.#stopped = true
    for (const watcher of this.#watchers.values()) watcher.stop()
  }

  /**
   * Waits at most `timeoutMs` until each joined host has reported its state or an attempt to connect to it has failed.
   * This does not affect the time for which calls wait for hosts without a connection.
   */
  async settle(timeoutMs: number): Promise<void> {
    for (const until = performance.now() + timeoutMs; performance.now() < until; await delay(20)) {
      if (!this.#complete) await this.#reads.run()
      const joined = [...this.#watchers.values()].filter(({ host }) => host.record.serials.length > 0)
      if (this.#complete && joined.every(({ settled }) => settled)) break
    }
    this.#startedMs = performance.now()
  }

  #expectedMs(hostId: string): number {
    const { reconnectMs } = this.#watcherOptions
    const limitMs = this.options.view.wasOnline(hostId) ? Math.max(reconnectMs, returnMs) : reconnectMs
    return this.#remainingMs(limitMs)
  }

  /** Time in ms that is left until `limitMs` after the start of this gateway. 0: this time has passed. */
  #remainingMs(limitMs: number): number {
    return this.#startedMs === undefined ? limitMs : Math.max(0, this.#startedMs + limitMs - performance.now())
  }

  /** Waits for hosts that are expected to connect after the start of this gateway, see `Fleet`. */
  async expectedConnections(guestRef?: string): Promise<void> {
    const find = (): GuestView | undefined => (guestRef ? this.options.view.findGuest(guestRef) : undefined)
    const guest = find()
    if (guest) await this.expectedConnection(guest.hostId)
    // The guest can be missing now, because its former host reported during the wait that the guest has moved.
    if (!find()) await this.#expectedHosts()
  }

  /** Waits for a host if it is expected to connect after the start of this gateway. */
  async expectedConnection(hostId: string): Promise<void> {
    const link = this.#watchers.get(hostId)?.client.link
    if (link && link.awaitedMs > 0) await link.connected().catch(() => undefined)
  }

  /** Waits for all expected hosts. From `returnMs` after the start, one connected host is enough. */
  async #expectedHosts(): Promise<void> {
    const links = [...this.#watchers.values()].map(({ client }) => client.link)
    const awaited = links.filter(({ awaitedMs }) => awaitedMs > 0)
    const isEnough = this.#remainingMs(returnMs) === 0 && this.connected().length > 0
    if (awaited.length === 0 || isEnough) return
    const all = Promise.allSettled(awaited.map((link) => link.connected()))
    const first = Promise.any(links.map((link) => link.connected()))
    const timeout = (): Promise<void> => delay(this.#remainingMs(returnMs), undefined, { ref: false })
    await Promise.race([all, first.then(timeout, () => all)])
  }

  /** Reads the hosts from the store, and writes hosts that the store has lost. Never rejects. */
  async poll(): Promise<void> {
    await this.#reads.run()
    await this.#restores.run()
  }

  async #quietly(step: string, work: () => Promise<void>): Promise<void> {
    if (this.#stopped) return
    await work().catch((error: unknown) => this.options.log.debug({ error }, `could not ${step}`))
  }

  async #applyList(): Promise<void> {
    const before = this.#isNewServer ? this.#beginReplacement() : undefined
    try {
      const list = await this.options.store.list()
      if (before) this.#replace(list, before)
      await this.#takeOver(list)
      this.#list = list
      this.#complete = true
    } catch (error) {
      if (before) this.#isNewServer = true
      throw error
    }
  }

  /**
   * Forgets which hosts were removed, because the new Redis server can lack a removal that was never acknowledged.
   * @returns the known records, by host id
   */
  #beginReplacement(): ReadonlyMap<string, HostRecord> {
    this.#isNewServer = false
    this.#removed.clear()
    return new Map([...this.options.view.states()].map(({ record }) => [record.id, record]))
  }

  /** Applies records of another Redis server, even older versions. Keeps records that have changed since `before`. */
  #replace({ records }: HostList, before: ReadonlyMap<string, HostRecord>): void {
    for (const record of records) {
      const known = this.options.view.findState(record.id)?.record
      if (!known || known !== before.get(record.id) || JSON.stringify(known) === JSON.stringify(record)) continue
      this.#apply(record, known)
    }
  }

  /** Applies a host's record from the store. @param known stored guests, which are shown until the host reports */
  adopt(record: HostRecord, known: readonly StoredGuest[] = []): void {
    const before = this.options.view.findState(record.id)?.record
    if (this.#removed.has(record.id) || (before && before.version >= record.version)) return
    this.#apply(record, before, before ? [] : known)
  }

  #apply(record: HostRecord, before: HostRecord | undefined, known: readonly StoredGuest[] = []): void {
    const { view } = this.options
    const host = view.setHost(record)
    for (const { guest, text } of known) {
      view.recall(host, guest)
      host.stored.set(text, guest)
    }
    if (record.serials.length > 0) this.#connect(host, before)
  }

  /** Changes the record of a host in the store and applies it. */
  async update(hostId: string, change: (record: HostRecord) => HostRecord, check?: HostCheck): Promise<void> {
    this.adopt(await this.options.store.update(hostId, change, check))
  }

  forget(hostId: string): void {
    const { view, cache, log } = this.options
    this.#removed.add(hostId)
    this.#watchers.get(hostId)?.stop()
    this.#watchers.delete(hostId)
    view.removeHost(hostId)
    cache
      .forget(hostId)
      .catch((error: unknown) => log.debug({ host: hostId, error }, 'could not remove known guests from the store'))
  }

  #connect(host: HostState, before: HostRecord | undefined): void {
    const { id, address } = host.record
    let watcher = this.#watchers.get(id)
    if (!watcher) {
      watcher = new HostWatcher(host, this.#watcherOptions)
      this.#watchers.set(id, watcher)
      return watcher.start()
    }
    const moved = before !== undefined && before.address !== address
    if (moved || !watcher.connection) watcher.restart()
  }

  /** Applies the list of hosts. Until a new host connects, its guests are shown in their stored state. */
  async #takeOver({ records, removed }: HostList): Promise<void> {
    const { view } = this.options
    for (const id of removed) {
      if (view.findState(id)) this.forget(id)
      this.#removed.add(id)
    }
    for (let at = 0; at < records.length; at += hostsPerRead) {
      const few = records.slice(at, at + hostsPerRead)
      const known = await Promise.all(few.map((record) => this.#readKnown(record)))
      few.forEach((record, n) => this.adopt(record, known[n]))
    }
  }

  async #readKnown({ id }: HostRecord): Promise<StoredGuest[]> {
    return this.options.view.findState(id) ? [] : this.options.cache.load(id)
  }

  /**
   * Writes hosts again that the store has lost, unless they were stored after the list was read. Requests do not wait
   * for this, because it takes long if the store has lost everything.
   */
  async #restoreLost(): Promise<void> {
    if (!this.#list) return
    const { view, store, log, owners } = this.options
    const versions = new Map(this.#list.records.map(({ id, version }) => [id, version]))
    for (const host of [...view.states()]) {
      const { id, name, version } = host.record
      if ((versions.get(id) ?? 0) >= version || !(await store.restore(host.record))) continue
      log.warn({ host: id, name }, 'a host was missing from the store; the gateway has written it there again')
      await owners.restore(host)
    }
  }
}
