import { intersectRights, isUnlimited, unlimited, type Rights } from './rights.js'

/** An API key as stored, with its digest instead of the key itself. */
export interface KeyRecord {
  readonly id: number
  readonly name: string
  /** SHA-256 of the whole key, hex. */
  readonly digest: string
  /** Beginning of the key, shown to people. */
  readonly prefix: string
  /** Canonical addresses and CIDRs; empty: any. */
  readonly addresses: readonly string[]
  readonly scopes: readonly string[]
  /** ms since 1970; 0: never. */
  readonly expiresAtMs: number
  readonly disabled: boolean
  /** Empty: all containers. */
  readonly containerUuids: readonly string[]
  readonly createdAtMs: number
  /** The key that made it and bounds it for ever; 0: made at set-up. */
  readonly parentId: number
}

/** Rights by the key's own record, without its makers' bounds. */
export function ownRights(record: KeyRecord): Rights {
  return {
    scopes: record.scopes,
    containers: record.containerUuids.length === 0 ? 'all' : record.containerUuids,
    addresses: record.addresses.length === 0 ? [] : [record.addresses],
    expiresAtMs: record.expiresAtMs,
    disabled: record.disabled,
  }
}

/** A key, its maker, its maker's maker, and so on. `complete` is false if a maker was deleted. */
export interface KeyChain {
  readonly records: readonly KeyRecord[]
  readonly complete: boolean
}

/** Longest chain of keys that made keys. */
export const maxChain = 8

/** Follows makers from a key up to the first one. */
export function chainOf(record: KeyRecord, find: (id: number) => KeyRecord | undefined): KeyChain {
  const records = [record]
  for (let id = record.parentId; id !== 0;) {
    const parent = find(id)
    // A maker is always older; otherwise the record is damaged and could loop.
    if (!parent || parent.id >= (records.at(-1)?.id ?? 0)) return { records, complete: false }
    records.push(parent)
    id = parent.parentId
  }
  return { records, complete: true }
}

/**
 * Rights of the first key of a chain: those that its record and every maker's record allow. Narrowing, disabling or
 * expiry of a maker applies to all keys created with it; if a maker was deleted, they are disabled.
 */
export function effectiveRights(chain: KeyChain): Rights {
  const rights = chain.records.map(ownRights).reduce(intersectRights)
  return chain.complete ? rights : { ...rights, disabled: true }
}

/** `Principal.root` of the first limited key of a chain. A key that an unlimited key created counts for itself. */
export function rootKeyOf({ records }: KeyChain): string {
  let rights = unlimited
  const root = records.toReversed().find((record) => {
    rights = intersectRights(rights, ownRights(record))
    return !isUnlimited({ ...rights, disabled: false })
  })
  return `key:${(root ?? records[0])?.id}`
}

/** `ref` of the first key of a chain that is bound to containers; undefined: none is. */
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
