import { conflict, notFound } from '../../shared/errors.js'
import type { Store, StoreClient } from '../store/store.js'
import type { HostRecord } from './host-record.js'

/** Host records: one hash, id → JSON; names are unique, case aside. */
export class HostStore {
  constructor(private readonly store: Store) {}

  async list(): Promise<HostRecord[]> {
    const all = await this.store.run('read hosts', (client) => client.hVals(this.#hosts))
    return all.map((text) => JSON.parse(text) as HostRecord)
  }

  /** @throws {BerthError} `name_conflict` */
  async create(record: HostRecord): Promise<void> {
    await this.#change('create host', (hosts) => {
      checkName(hosts, record)
      return record
    })
  }

  /** @throws {BerthError} `not_found`, `name_conflict` */
  async update(hostId: string, change: (record: HostRecord) => HostRecord): Promise<HostRecord> {
    return this.#change('change host', (hosts) => {
      const before = hosts.get(hostId)
      if (!before) throw notFound('host')
      const after = { ...change(before), version: before.version + 1 }
      checkName(hosts, after)
      return after
    })
  }

  async remove(hostId: string): Promise<void> {
    await this.store.run('remove host', (client) => client.hDel(this.#hosts, hostId))
  }

  async #change(
    step: string,
    change: (hosts: ReadonlyMap<string, HostRecord>) => HostRecord,
  ): Promise<HostRecord> {
    return this.store.transact(step, async (client: StoreClient) => {
      await client.watch(this.#hosts)
      const all = (await client.hVals(this.#hosts)).map((text) => JSON.parse(text) as HostRecord)
      const record = change(new Map(all.map((host) => [host.id, host])))
      await client.multi().hSet(this.#hosts, record.id, JSON.stringify(record)).exec()
      return record
    })
  }

  get #hosts(): string {
    return this.store.key('hosts')
  }
}

function checkName(hosts: ReadonlyMap<string, HostRecord>, record: HostRecord): void {
  const name = record.name.toLowerCase()
  for (const other of hosts.values())
    if (other.id !== record.id && other.name.toLowerCase() === name)
      throw conflict('name_conflict', `a host named ${other.name} exists`)
}
