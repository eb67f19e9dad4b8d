import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { isConnectionGood } from './certificates.js'
import type { GuestCache } from './guest-cache.js'
import type { HostRecord } from './host-record.js'
import type { HostState } from './host-state.js'
import type { HostList, HostStore } from './host-store.js'
import type { HostWatcher } from './host-watcher.js'
import type { FleetState } from './view.js'

export interface WatchedHostsOptions {
  readonly view: FleetState
  readonly store: HostStore
  readonly cache: GuestCache
  readonly log: Logger
  readonly createWatcher: (host: HostState) => HostWatcher
  /** Called when the store had lost this host's record, and so perhaps other data of the host. */
  readonly restored: (host: HostState) => Promise<void>
}

/**
 * The hosts in the store, each with its watcher; follows changes by this and other gateways. A host is removed only by
 * its tombstone: records missing from a store that was emptied or restored are written to it again.
 */
export class WatchedHosts {
  readonly #watchers = new Map<string, HostWatcher>()
  /** Hosts removed by this gateway, which a reading that began before must not bring back. */
  readonly #removed = new Set<string>()
  #complete = false
  #polling = false

  constructor(private readonly options: WatchedHostsOptions) {}

  /** True if the store has been read. */
  get isComplete(): boolean {
    return this.#complete
  }

  findWatcher(hostId: string): HostWatcher | undefined {
    return this.#watchers.get(hostId)
  }

  *entries(): Iterable<{ host: HostState; watcher: HostWatcher }> {
    for (const host of this.options.view.states()) {
      const watcher = this.#watchers.get(host.record.id)
      if (watcher) yield { host, watcher }
    }
  }

  stop(): void {
    for (const watcher of this.#watchers.values()) watcher.stop()
  }

  /** Resolves when each joined host has reported or is unreachable, or after `timeoutMs`. */
  async settle(timeoutMs: number): Promise<void> {
    for (const until = performance.now() + timeoutMs; performance.now() < until; await delay(20)) {
      if (!this.#complete) await this.poll()
      const joined = [...this.entries()].filter(({ host }) => host.record.serials.length > 0)
      if (this.#complete && joined.every(({ watcher }) => watcher.settled)) return
    }
  }

  async poll(): Promise<void> {
    if (this.#polling) return
    this.#polling = true
    try {
      const list = await this.options.store.list()
      await this.#takeOver(list)
      this.#complete = true
      await this.#restoreLost(list)
    } catch (error) {
      this.options.log.debug({ error }, 'hosts not read')
    } finally {
      this.#polling = false
    }
  }

  /**
   * Takes over a record from the store.
   * @param known guests known to an earlier gateway, shown until the host reports
   */
  adopt(record: HostRecord, known: readonly Guest[] = []): void {
    const { view } = this.options
    const before = view.findState(record.id)?.record
    if (this.#removed.has(record.id) || (before && before.version >= record.version)) return
    const host = view.setHost(record)
    if (!before) for (const guest of known) view.recall(host, guest)
    if (record.serials.length > 0) this.#connect(host, before)
  }

  forget(hostId: string): void {
    const { view, cache, log } = this.options
    this.#removed.add(hostId)
    this.#watchers.get(hostId)?.stop()
    this.#watchers.delete(hostId)
    view.removeHost(hostId)
    cache.forget(hostId).catch((error: unknown) => log.debug({ host: hostId, error }, 'known guests not forgotten'))
  }

  #connect(host: HostState, before: HostRecord | undefined): void {
    const { id, address } = host.record
    let watcher = this.#watchers.get(id)
    if (!watcher) {
      watcher = this.options.createWatcher(host)
      this.#watchers.set(id, watcher)
      return watcher.start()
    }
    const { connection } = watcher
    const moved = before !== undefined && before.address !== address
    if (moved || !connection || !isConnectionGood(host, connection)) watcher.restart()
  }

  /** Takes over hosts; new ones with the guests known to an earlier gateway, connecting to them meanwhile. */
  async #takeOver({ records, removed }: HostList): Promise<void> {
    const { view, cache } = this.options
    for (const id of removed) if (view.findState(id)) this.forget(id)
    for (const record of records) this.adopt(record, view.findState(record.id) ? [] : await cache.load(record.id))
  }

  /** Restores missing records. One that this gateway wrote since the reading is there by now: the store decides. */
  async #restoreLost({ records }: HostList): Promise<void> {
    const { view, store, log, restored } = this.options
    const versions = new Map(records.map(({ id, version }) => [id, version]))
    for (const host of [...view.states()]) {
      const { id, name, version } = host.record
      if ((versions.get(id) ?? 0) >= version || !(await store.restore(host.record))) continue
      log.warn({ host: id, name }, 'the store had lost a host; written to it again')
      await restored(host)
    }
  }
}
