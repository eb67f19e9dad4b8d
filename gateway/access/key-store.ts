import type { Store, StoreClient } from '../store/store.js'
import { chainOf, decodeRecord, encodeRecord, maxChain, type KeyChain, type KeyRecord } from './key-record.js'

/** Names of keys' data in the store. Only records are watched for changes; their digests never change. */
export function keyNames(store: Store) {
  return {
    recordPrefix: store.key('apikey', ''),
    record: (id: number) => store.key('apikey', id),
    /** String: id by digest. */
    digest: (digest: string) => store.key('apikey-digest', digest),
    /** String: the key that an operation made, see MadeSecrets. */
    operation: (operationId: string) => store.key('apikey-operation', operationId),
    /** Set of ids. */
    ids: store.key('apikey-ids'),
    nextId: store.key('apikey-next'),
    /** Counts keys made, changed and removed; watched by transactions that need all keys unchanged. */
    version: store.key('apikey-version'),
    /** Hash by id: when and from where it was last used. */
    used: store.key('apikey-used'),
  }
}

export type KeyNames = ReturnType<typeof keyNames>

/** A marker of an event that must happen only once. */
export interface KeyMarker {
  readonly key: string
  readonly value: string
  /** Default: for ever. */
  readonly keepMs?: number
}

/** All keys by id, in the order they were made. */
export async function readAllKeys(client: StoreClient, names: KeyNames): Promise<Map<number, KeyRecord>> {
  const ids = (await client.sMembers(names.ids)).map(Number).sort((a, b) => a - b)
  if (ids.length === 0) return new Map()
  const texts = await client.mGet(ids.map((id) => names.record(id)))
  const records = texts.filter((text) => text !== null).map((text) => decodeRecord(text))
  return new Map(records.map((record) => [record.id, record]))
}

/**
 * A key and its makers; `undefined` when there is no such key.
 * @param onRead called with every id before it is read
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
 * Stores a key: record, digest and index together or not at all. Transactions that watch `version` notice it.
 * @param marker set in the same transaction
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
