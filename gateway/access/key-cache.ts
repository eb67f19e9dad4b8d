import { timingSafeEqual } from 'node:crypto'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import type { Store, StoreClient } from '../store/store.js'
import { AddressSet } from './addresses.js'
import { boundRootOf, effectiveRights, rootKeyOf, type KeyChain, type KeyRecord } from './key-record.js'
import { keyNames, readChain, type KeyNames } from './key-store.js'
import type { KeyPrincipal } from './principal.js'
import { isUnlimited, type Rights } from './rights.js'

/** A key with its effective rights, prepared for checking requests. */
export interface ResolvedKey {
  readonly record: KeyRecord
  /** False if a key in the chain of its creators was deleted. */
  readonly complete: boolean
  readonly rights: Rights
  readonly principal: KeyPrincipal
  /** True if the key may be used from this address. */
  readonly admits: (address: string) => boolean
}

const maxEntries = 20_000

interface Load {
  readonly ids: Set<number>
  stale: boolean
}

/**
 * Caches recently used keys by their digests. The store reports every change of a key. While the store is unreachable,
 * nothing is cached. Unknown digests are not cached, so that invalid keys do not fill the memory.
 */
export class KeyCache {
  readonly #byDigest = new Map<string, ResolvedKey>()
  readonly #digestsById = new Map<number, Set<string>>()
  readonly #byId = new Map<number, ResolvedKey>()
  readonly #loads = new Set<Load>()
  readonly #pending = new KeyedSingleFlight<string, ResolvedKey | undefined>()
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

  get(digest: string): ResolvedKey | undefined {
    return this.#byDigest.get(digest)
  }

  /** Reads a key from the store. Concurrent calls share one read. @throws {BerthError} `store_unavailable` */
  async load(digest: string): Promise<ResolvedKey | undefined> {
    return this.#pending.run(digest, () =>
      this.store.run('look up an API key', (client) =>
        this.#resolve(
          (load) => this.#read(client, digest, load),
          (resolved, ids) => this.#keep(digest, resolved, ids),
        ),
      ),
    )
  }

  /** Finds a key by its id, in the cache or the store. @throws {BerthError} `store_unavailable` */
  async findById(id: number): Promise<ResolvedKey | undefined> {
    const known = this.#byId.get(id)
    if (known) return known
    return this.store.run('look up an API key', (client) =>
      this.#resolve(
        (load) => this.#readById(client, id, load),
        (resolved) => this.#keepById(id, resolved),
      ),
    )
  }

  /** Drops a key, and all keys that it created, from the cache. Marks running reads of these keys as stale. */
  forget(id: number): void {
    for (const load of this.#loads) if (load.ids.has(id)) load.stale = true
    for (const digest of this.#digestsById.get(id) ?? []) this.#byDigest.delete(digest)
    this.#digestsById.delete(id)
    this.#byId.clear() // the whole map is cleared, because it contains few keys, and keys change seldom
  }

  clear(): void {
    for (const load of this.#loads) load.stale = true
    this.#byDigest.clear()
    this.#digestsById.clear()
    this.#byId.clear()
  }

  async #resolve(
    read: (load: Load) => Promise<ResolvedKey | undefined>,
    keep: (resolved: ResolvedKey, ids: ReadonlySet<number>) => void,
  ): Promise<ResolvedKey | undefined> {
    const load: Load = { ids: new Set(), stale: false }
    this.#loads.add(load)
    try {
      for (;;) {
        load.stale = false
        load.ids.clear()
        const resolved = await read(load)
        if (load.stale && this.store.ready()) continue // if the record has changed during the read, it is read again
        if (resolved && !load.stale) keep(resolved, load.ids)
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

  async #readById(client: StoreClient, id: number, load: Load): Promise<ResolvedKey | undefined> {
    const chain = await readChain(client, this.#names, id, (read) => load.ids.add(read))
    return chain && resolveKey(chain)
  }

  #keepById(id: number, resolved: ResolvedKey): void {
    if (this.#byId.size >= maxEntries) this.#byId.clear()
    this.#byId.set(id, resolved)
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

/** Compares digests in constant time. */
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
    principal: principalOf(record, rights, { root: rootKeyOf(chain), boundRoot: boundRootOf(chain) }),
    admits: rememberVerdicts(rights.addresses.map((list) => new AddressSet(list))),
  }
}

function principalOf(
  { id, name }: KeyRecord,
  rights: Rights,
  { root, boundRoot }: { root: string; boundRoot: string | undefined },
): KeyPrincipal {
  const { scopes, containers } = rights
  const guests = containers === 'all' ? containers : new Set(containers)
  const user = `api:${name}`
  const unlimited = isUnlimited(rights)
  return {
    kind: 'key',
    ref: `key:${id}`,
    root,
    ...(boundRoot !== undefined && { boundRoot }),
    keyId: id,
    user,
    scopes,
    guests,
    unlimited,
  }
}

const maxVerdicts = 100

/** Returns a function that checks an address and caches the result, because a check takes 1.5 µs per list entry. */
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
