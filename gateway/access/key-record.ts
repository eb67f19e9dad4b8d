import { intersectRights, type Rights } from './rights.js'

/** An API key as it is stored. The key itself is not: only its digest. */
export interface KeyRecord {
  readonly id: number
  readonly name: string
  /** SHA-256 of the whole key, hex. */
  readonly digest: string
  /** The key's beginning, for people. */
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
  /** The key that made it and bounds it for ever; 0: made by the set-up. */
  readonly parentId: number
}

/** What the key's own record allows, its maker aside. */
export function ownRights(record: KeyRecord): Rights {
  return {
    scopes: record.scopes,
    containers: record.containerUuids.length === 0 ? 'all' : record.containerUuids,
    addresses: record.addresses.length === 0 ? [] : [record.addresses],
    expiresAtMs: record.expiresAtMs,
    disabled: record.disabled,
  }
}

/** A key, then the one that made it, and so on. `complete` is false where a maker is gone. */
export interface KeyChain {
  readonly records: readonly KeyRecord[]
  readonly complete: boolean
}

/** Longest line of keys that made keys. */
export const maxChain = 8

export function chainOf(record: KeyRecord, find: (id: number) => KeyRecord | undefined): KeyChain {
  const records = [record]
  for (let id = record.parentId; id !== 0;) {
    const parent = find(id)
    // A maker is always older; anything else is a damaged record and must not loop.
    if (!parent || parent.id >= (records.at(-1)?.id ?? 0)) return { records, complete: false }
    records.push(parent)
    id = parent.parentId
  }
  return { records, complete: true }
}

/**
 * What the first key of a chain may do: what its record and every maker's allow. A maker narrowed, disabled
 * or expired narrows, disables or ends all that was made with it; one that is gone ends it too.
 */
export function effectiveRights(chain: KeyChain): Rights {
  const rights = chain.records.map(ownRights).reduce(intersectRights)
  return chain.complete ? rights : { ...rights, disabled: true }
}

export function encodeRecord(record: KeyRecord): string {
  return JSON.stringify(record)
}

export function decodeRecord(text: string): KeyRecord {
  return JSON.parse(text) as KeyRecord
}
