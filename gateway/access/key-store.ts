import type { Store, StoreClient } from '../store/store.js'
import { chainOf, decodeRecord, encodeRecord, maxChain, type KeyChain, type KeyRecord } from './key-record.js'

/** Names of Redis keys with the data of API keys. Gateways watch only `record`, because `digest` never changes. */
export function keyNames(store: Store) {
  return {
    recordPrefix: store.key('apikey', ''),
    record: (id: number) => store.key('apikey', id),
    /** String with the id of a key, stored under the digest of the key. */
    digest: (digest: string) => store.key('apikey-digest', digest),
    /** String: the key that an operation created, see MadeSecrets. */
    operation: (operationId: string) => store.key('apikey-operation', operationId),
    /** Set: ids of all keys. */
    ids: store.key('apikey-ids'),
    nextId: store.key('apikey-next'),
    /** Counter of all changes of keys. Transactions watch it if they need all keys to stay unchanged. */
    version: store.key('apikey-version'),
    /** Hash with the last use (time and address) of each key, by id of the key. */
    used: store.key('apikey-used'),
  }
}

export type KeyNames = ReturnType<typeof keyNames>

/** A value that is stored with a key, for example to mark that it was imported. */
export interface KeyMarker {
  readonly key: string
  readonly value: string
  /** Lifetime of the value in ms. Default: no limit. */
  readonly keepMs?: number
}

/** Reads all keys by id, in the order of their creation. */
export async function readAllKeys(client: StoreClient, names: KeyNames): Promise<Map<number, KeyRecord>> {
  const ids = (await client.sMembers(names.ids)).map(Number).sort((a, b) => a - b)
  if (ids.length === 0) return new Map()
  const texts = await client.mGet(ids.map((id) => names.record(id)))
  const records = texts.filter((text) => text !== null).map((text) => decodeRecord(text))
  return new Map(records.map((record) => [record.id, record]))
}

/**
 * Reads a key and its creators. `undefined`: the key does not exist.
 * @param onRead called with each key's id before its read
 */
export async function readChain(
  client: StoreClient,
  names: KeyNames,
  id: number,
  onRead: (id: number) => void = () => undefined,
): Promise<KeyChain | undefined> {
  const found = new Map<number, KeyRecord>()
  for (let next = id, depth = 0; next !== 0 && depth <= maxChain; depth++) {
    onRead(next)
    const text = await client.get(names.record(next))
    if (text === null) break
    const record = decodeRecord(text)
    found.set(next, record)
    next = record.parentId
  }
  const first = found.get(id)
  return first && chainOf(first, (parent) => found.get(parent))
}

/**
 * Stores record, digest and id of a key in one transaction, and increments the counter `version`. Concurrent
 * transactions that watch this counter therefore fail and run again.
 * @param marker value to set in the same transaction
 */
export async function insertKey(
  client: StoreClient,
  names: KeyNames,
  record: KeyRecord,
  marker?: KeyMarker,
): Promise<void> {
  const multi = client
    .multi()
    .set(names.record(record.id), encodeRecord(record))
    .set(names.digest(record.digest), String(record.id))
    .sAdd(names.ids, String(record.id))
    .incr(names.version)
  const { keepMs } = marker ?? {}
  const expiry = keepMs === undefined ? {} : ({ expiration: { type: 'PX', value: keepMs } } as const)
  if (marker) multi.set(marker.key, marker.value, expiry)
  await multi.exec()
}
