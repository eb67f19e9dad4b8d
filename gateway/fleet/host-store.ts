import { conflict, notFound } from '../../shared/errors.js'
import type { Store, StoreClient } from '../store/store.js'
import type { HostRecord } from './host-record.js'

export interface HostList {
  readonly records: readonly HostRecord[]
  /** Ids of hosts that administrators have removed. */
  readonly removed: ReadonlySet<string>
}

/** Throws an error if a host's record conflicts with the records of other hosts. */
export type HostCheck = (record: HostRecord, others: readonly HostRecord[]) => void

/**
 * Stored host records. Names are unique, ignoring case.
 *
 * | key | holds |
 * |---|---|
 * | `hosts` | hash: id → HostRecord as JSON |
 * | `removed-hosts` | hash: id → time of removal in ms since 1970; entries are never deleted |
 */
export class HostStore {
  constructor(private readonly store: Store) {}

  /**
   * Calls the listener when this gateway has possibly connected to another Redis server. The records of that server
   * then replace all known records, even newer ones. Without replicas, the listener is never called.
   */
  onNewServer(listener: () => void): void {
    if (this.store.needsConfirmation) this.store.on('up', listener)
  }

  /**
   * Calls the listener after each change of hosts by any gateway. The change counts as visible when the listener's
   * promise resolves. Call this before `store.start()`.
   */
  onChange(listener: () => Promise<void>): void {
    for (const key of [this.#hosts, this.#removed]) this.store.onInvalidate(key, listener)
  }

  async list(): Promise<HostList> {
    const [all, removed] = await this.store.run('read the hosts', (client) =>
      client.multi().hVals(this.#hosts).hKeys(this.#removed).exec(),
    )
    const records = (all as unknown as string[]).map(parseHost)
    return { records, removed: new Set(removed as unknown as string[]) }
  }

  /**
   * Stores a host's record again if the store has lost it, even if a newer host has the same name now. A duplicate name
   * is better than a lost host. An older version in the store is replaced only if there are no replicas. With replicas,
   * a version that the store lacks was never acknowledged.
   * @returns false if the store keeps its record, or the host was removed
   */
  async restore(record: HostRecord): Promise<boolean> {
    return this.store.transact('store a host again', async (client) => {
      await client.watch([this.#hosts, this.#removed])
      const text = await client.hGet(this.#hosts, record.id)
      const removed = (await client.hExists(this.#removed, record.id)) === 1
      const isKept = text && (this.store.needsConfirmation || parseHost(text).version >= record.version)
      if (removed || isKept) {
        await client.unwatch()
        return false
      }
      await client.multi().hSet(this.#hosts, record.id, JSON.stringify(record)).exec()
      return true
    })
  }

  /**
   * Stores a new host. If a host with this id exists, returns that host unchanged.
   * @throws {BerthError} `name_conflict`, `invalid_state` if a host with this id was removed, or the error of `check`
   */
  async create(record: HostRecord, check: HostCheck): Promise<HostRecord> {
    return this.store.transact('add a host', async (client) => {
      const hosts = await this.#watch(client)
      const earlier = hosts.get(record.id)
      if (earlier) {
        await client.unwatch()
        return earlier
      }
      if ((await client.hExists(this.#removed, record.id)) === 1)
        throw conflict('invalid_state', 'the host that this request added was removed in the meantime')
      return this.#write(client, record, hosts, check)
    })
  }

  /** @throws {BerthError} `not_found`, `name_conflict`, or the error of `check` */
  async update(hostId: string, change: (record: HostRecord) => HostRecord, check?: HostCheck): Promise<HostRecord> {
    return this.store.transact('change a host', async (client) => {
      const hosts = await this.#watch(client)
      const before = hosts.get(hostId)
      if (!before) throw notFound('host')
      const after = { ...change(before), version: before.version + 1 }
      return this.#write(client, after, hosts, check)
    })
  }

  /** Removes a host, but keeps its id. Otherwise, gateways would restore the host like one that the store has lost. */
  async remove(hostId: string): Promise<void> {
    await this.store.run('remove a host', (client) =>
      client.multi().hDel(this.#hosts, hostId).hSet(this.#removed, hostId, String(Date.now())).exec(),
    )
  }

  async #watch(client: StoreClient): Promise<ReadonlyMap<string, HostRecord>> {
    await client.watch(this.#hosts)
    const all = (await client.hVals(this.#hosts)).map(parseHost)
    return new Map(all.map((host) => [host.id, host]))
  }

  /** Checks that a record does not conflict with the other records, and stores it. */
  async #write(
    client: StoreClient,
    record: HostRecord,
    hosts: ReadonlyMap<string, HostRecord>,
    check?: HostCheck,
  ): Promise<HostRecord> {
    const others = [...hosts.values()].filter(({ id }) => id !== record.id)
    checkName(record, others)
    check?.(record, others)
    await client.multi().hSet(this.#hosts, record.id, JSON.stringify(record)).exec()
    return record
  }

  get #hosts(): string {
    return this.store.key('hosts')
  }

  get #removed(): string {
    return this.store.key('removed-hosts')
  }
}

function parseHost(text: string): HostRecord {
  return JSON.parse(text) as HostRecord
}

function checkName({ name }: HostRecord, others: readonly HostRecord[]): void {
  const other = others.find((host) => host.name.toLowerCase() === name.toLowerCase())
  if (other) throw conflict('name_conflict', `a host named ${other.name} already exists`)
}
