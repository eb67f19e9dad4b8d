import { timingSafeEqual } from 'node:crypto'
import type { Store, StoreClient } from '../store/store.js'
import { AddressSet } from './addresses.js'
import { effectiveRights, type KeyChain, type KeyRecord } from './key-record.js'
import { keyNames, readChain, type KeyNames } from './key-store.js'
import type { Principal } from './principal.js'
import type { Rights } from './rights.js'

/** A key with what it may do, ready for checking requests. */
export interface ResolvedKey {
  readonly record: KeyRecord
  /** False when a key that made it is gone. */
  readonly complete: boolean
  readonly rights: Rights
  readonly principal: Principal
  /** Whether it may be used from an address. */
  readonly admits: (address: string) => boolean
}

const maxEntries = 20_000

interface Load {
  readonly ids: Set<number>
  stale: boolean
}

/**
 * Keys that were used lately, by digest. The store tells of every change of a record, whoever made it; while
 * it cannot, nothing is kept. Unknown digests are not remembered: garbage takes no memory.
 */
export class KeyCache {
  readonly #byDigest = new Map<string, ResolvedKey>()
  readonly #digestsById = new Map<number, Set<string>>()
  readonly #loads = new Set<Load>()
  readonly #pending = new Map<string, Promise<ResolvedKey | undefined>>()
  readonly #names: KeyNames

  constructor(private readonly store: Store) {
    this.#names = keyNames(store)
    store.onInvalidate(this.#names.recordPrefix, (key) =>
      key === null ? this.clear() : this.forget(Number(key.slice(this.#names.recordPrefix.length))),
    )
    store.on('down', () => this.clear())
  }

  get size(): number {
    return this.#byDigest.size
  }

  /** From memory. */
  get(digest: string): ResolvedKey | undefined {
    return this.#byDigest.get(digest)
  }

  /** From the store; asked once however many want it. @throws {BerthError} `store_unavailable` */
  async load(digest: string): Promise<ResolvedKey | undefined> {
    const running = this.#pending.get(digest)
    if (running) return running
    const loading = this.store
      .run('look up an API key', (client) => this.#resolve(client, digest))
      .finally(() => this.#pending.delete(digest))
    this.#pending.set(digest, loading)
    return loading
  }

  /** Drops what depends on a key; also what is being read at this moment. */
  forget(id: number): void {
    for (const load of this.#loads) if (load.ids.has(id)) load.stale = true
    for (const digest of this.#digestsById.get(id) ?? []) this.#byDigest.delete(digest)
    this.#digestsById.delete(id)
  }

  clear(): void {
    for (const load of this.#loads) load.stale = true
    this.#byDigest.clear()
    this.#digestsById.clear()
  }

  async #resolve(client: StoreClient, digest: string): Promise<ResolvedKey | undefined> {
    const load: Load = { ids: new Set(), stale: false }
    this.#loads.add(load)
    try {
      for (;;) {
        load.stale = false
        load.ids.clear()
        const resolved = await this.#read(client, digest, load)
        if (load.stale && this.store.ready()) continue // it changed while it was read
        if (resolved && !load.stale) this.#keep(digest, resolved, load.ids)
        return resolved
      }
    } finally {
      this.#loads.delete(load)
    }
  }

  async #read(client: StoreClient, digest: string, load: Load): Promise<ResolvedKey | undefined> {
    const id = Number((await client.get(this.#names.digest(digest))) ?? 0)
    const chain = await readChain(client, this.#names, id, (read) => load.ids.add(read))
    return chain && sameDigest(chain.records[0]?.digest, digest) ? resolveKey(chain) : undefined
  }

  #keep(digest: string, resolved: ResolvedKey, ids: ReadonlySet<number>): void {
    if (this.#byDigest.size >= maxEntries) this.clear()
    this.#byDigest.set(digest, resolved)
    for (const id of ids) {
      const digests = this.#digestsById.get(id) ?? new Set()
      this.#digestsById.set(id, digests.add(digest))
    }
  }
}

/** The store is trusted to find the right record, but not blindly. */
function sameDigest(a: string | undefined, b: string): boolean {
  return a?.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
}

function resolveKey(chain: KeyChain): ResolvedKey | undefined {
  const [record] = chain.records
  if (!record) return undefined
  const rights = effectiveRights(chain)
  return {
    record,
    complete: chain.complete,
    rights,
    principal: principalOf(record, rights),
    admits: rememberVerdicts(rights.addresses.map((list) => new AddressSet(list))),
  }
}

function principalOf({ id, name }: KeyRecord, { scopes, containers }: Rights): Principal {
  const guests = containers === 'all' ? containers : new Set(containers)
  return { kind: 'key', ref: `key:${id}`, keyId: id, user: `api:${name}`, scopes, guests }
}

const maxVerdicts = 100

/** Callers come from few addresses; a look-up in a block list costs some 1.5 µs for each of its entries. */
function rememberVerdicts(sets: readonly AddressSet[]): (address: string) => boolean {
  if (sets.length === 0) return () => true
  const verdicts = new Map<string, boolean>()
  return (address) => {
    const known = verdicts.get(address)
    if (known !== undefined) return known
    if (verdicts.size >= maxVerdicts) verdicts.clear()
    const verdict = sets.every((set) => set.has(address))
    verdicts.set(address, verdict)
    return verdict
  }
}
