import { intersectRights, isUnlimited, unlimited, type Rights } from './rights.js'

/** An API key as stored. The record contains a digest of the key, not the key itself. */
export interface KeyRecord {
  readonly id: number
  readonly name: string
  /** SHA-256 of the complete key in hexadecimal. */
  readonly digest: string
  /** Beginning of the key, by which users recognize it. */
  readonly prefix: string
  /** Canonical addresses and CIDRs from which the key may be used. Empty: all addresses. */
  readonly addresses: readonly string[]
  readonly scopes: readonly string[]
  /** Time in ms since 1970 when the key expires. 0: the key never expires. */
  readonly expiresAtMs: number
  readonly disabled: boolean
  /** Containers that the key may access. Empty: all containers. */
  readonly containerUuids: readonly string[]
  readonly createdAtMs: number
  /** Id of the creating key, whose rights always limit this key. 0: an administrator created this key. */
  readonly parentId: number
  /** True if the command line got the key after a login in a browser. Such a key can delete itself. */
  readonly isLogin?: true
}

/** Rights in the key's own record, without the limits of its creators. */
export function ownRights(record: KeyRecord): Rights {
  return {
    scopes: record.scopes,
    containers: record.containerUuids.length === 0 ? 'all' : record.containerUuids,
    addresses: record.addresses.length === 0 ? [] : [record.addresses],
    expiresAtMs: record.expiresAtMs,
    disabled: record.disabled,
  }
}

/** A key, its creator, the creator's creator, and so on. `complete`: false if one of these keys was deleted. */
export interface KeyChain {
  readonly records: readonly KeyRecord[]
  readonly complete: boolean
}

/** A key can create keys, which can create further keys. This is the maximum length of such a chain. */
export const maxChain = 8

export function chainOf(record: KeyRecord, find: (id: number) => KeyRecord | undefined): KeyChain {
  const records = [record]
  for (let id = record.parentId; id !== 0;) {
    const parent = find(id)
    // The creator of a key always has a lower id. If not, the record is damaged, and the chain could be a circle.
    if (!parent || parent.id >= (records.at(-1)?.id ?? 0)) return { records, complete: false }
    records.push(parent)
    id = parent.parentId
  }
  return { records, complete: true }
}

/**
 * Rights of a key, limited by the records of all its creators. The key counts as disabled if one of its creators is
 * disabled or was deleted. The key counts as expired if one of its creators has expired.
 */
export function effectiveRights(chain: KeyChain): Rights {
  const rights = chain.records.map(ownRights).reduce(intersectRights)
  return chain.complete ? rights : { ...rights, disabled: true }
}

/** Returns the `Principal.root` of a key: the oldest limited key among it and its creators, or else the key itself. */
export function rootKeyOf({ records }: KeyChain): string {
  let rights = unlimited
  const root = records.toReversed().find((record) => {
    rights = intersectRights(rights, ownRights(record))
    return !isUnlimited({ ...rights, disabled: false })
  })
  return `key:${(root ?? records[0])?.id}`
}

/** Returns the `ref` of the chain's oldest key restricted to some containers. `undefined`: no key is restricted. */
export function boundRootOf({ records }: KeyChain): string | undefined {
  const root = records.findLast(({ containerUuids }) => containerUuids.length > 0)
  return root && `key:${root.id}`
}

export function encodeRecord(record: KeyRecord): string {
  return JSON.stringify(record)
}

export function decodeRecord(text: string): KeyRecord {
  return JSON.parse(text) as KeyRecord
}
