import { conflict, notFound } from '../../shared/errors.js'
import type { Store, StoreClient } from '../store/store.js'
import type { CreationLimit } from './creation-limits.js'
import type { KeyCache } from './key-cache.js'
import { decodeRecord, effectiveRights, encodeRecord, type KeyRecord } from './key-record.js'
import { createKeySecret, digestKey, shownPrefix } from './key-secret.js'
import { insertKey, keyNames, readAllKeys, readChain, type KeyNames } from './key-store.js'
import type { KeyUsage, KeyUse } from './key-usage.js'
import { MadeSecrets } from './made-secrets.js'
import {
  administratorId,
  callerRights,
  checkChainLength,
  checkKeyLimit,
  mayManage,
  planKeyChange,
  planNewKey,
  planKeyRemoval,
  type KeyFields,
  type Keys,
  type Situation,
} from './plan-keys.js'
import { unlimited, type Rights } from './rights.js'

export interface ListedKey {
  readonly record: KeyRecord
  /** Last use of the key. `undefined`: the key was never used. */
  readonly use: KeyUse | undefined
}

export interface CreatedKey {
  readonly record: KeyRecord
  /** The secret key, which only its creator sees. */
  readonly key: string
}

/** Fields of a key to create. */
export interface NewKey extends KeyFields {
  readonly name: string
  /** True if the command line gets the key after a login in a browser. The key can then delete itself. */
  readonly isLogin?: boolean
}

export interface ApiKeysOptions {
  readonly store: Store
  readonly cache: KeyCache
  readonly usage: KeyUsage
  /** 32 bytes from `readOrCreateKey`. */
  readonly secret: Buffer
  readonly limit: CreationLimit
}

/**
 * Creates, changes and removes API keys on behalf of a calling key or of a logged-in administrator (`administratorId`).
 * All methods can throw BerthError `store_unavailable`.
 */
export class ApiKeys {
  readonly #names: KeyNames
  readonly #made: MadeSecrets
  readonly #removedListeners = new Set<() => Promise<void>>()

  constructor(private readonly options: ApiKeysOptions) {
    this.#names = keyNames(options.store)
    const { operation: nameOf } = this.#names
    this.#made = new MadeSecrets({ nameOf, secret: options.secret, use: 'use created API keys' })
  }

  /** Registers a listener that runs after keys were removed. */
  onRemoved(listener: () => Promise<void>): void {
    this.#removedListeners.add(listener)
  }

  /** Lists keys by creation time. A caller restricted to some containers sees only keys that it may manage. */
  async list(callerId: number): Promise<ListedKey[]> {
    const [keys, uses] = await Promise.all([this.#readAll(), this.options.usage.readAll()])
    return [...keys.values()]
      .filter((record) => isVisible(keys, callerId, record))
      .map((record) => ({ record, use: uses.get(record.id) }))
  }

  /**
   * Creates a key.
   * @param operationId id of a request that can be repeated: all attempts return the same key
   * @param keepMs time in ms for which the secret of the request is remembered. Default: 48 hours.
   * @throws {BerthError} `insufficient_scope`, `invalid_state`, `key_limit_reached`
   */
  async create(callerId: number, fields: NewKey, operationId?: string, keepMs?: number): Promise<CreatedKey> {
    return this.options.store.transact('create an API key', async (client) => {
      // If any key changes before the transaction ends, for example because the creator loses rights, the transaction
      // runs again.
      await client.watch(this.#names.version)
      const made = operationId === undefined ? undefined : await this.#made.find(client, operationId)
      if (made) return this.#readMade(client, made)
      const record = await this.#planRecord(client, callerId, fields)
      const key = createKeySecret()
      const complete = { ...record, digest: digestKey(key), prefix: shownPrefix(key) }
      const marker = operationId === undefined ? undefined : this.#made.marker(operationId, record.id, key, keepMs)
      await insertKey(client, this.#names, complete, marker)
      return { record: complete, key }
    })
  }

  async #planRecord(
    client: StoreClient,
    callerId: number,
    fields: NewKey,
  ): Promise<Omit<KeyRecord, 'digest' | 'prefix'>> {
    checkKeyLimit(await readAllKeys(client, this.#names), callerId, this.options.limit)
    const grant = planNewKey(fields, await this.#makerRights(client, callerId))
    const id = await client.incr(this.#names.nextId)
    const login = fields.isLogin ? ({ isLogin: true } as const) : {}
    return { ...grant, id, name: fields.name, createdAtMs: Date.now(), parentId: callerId, ...login }
  }

  /** Returns the key that a request created, only once. `undefined`: the key was taken, deleted or never created. */
  async takeMade(operationId: string): Promise<CreatedKey | undefined> {
    return this.options.store.run('take a created API key', async (client) => {
      const made = await this.#made.take(client, operationId)
      const text = made && (await client.get(this.#names.record(made.id)))
      return text ? { record: decodeRecord(text), key: made.key } : undefined
    })
  }

  async #makerRights(client: StoreClient, callerId: number): Promise<Rights> {
    if (callerId === administratorId) return unlimited
    const maker = await readChain(client, this.#names, callerId)
    if (!maker) throw notFound('API key')
    checkChainLength(maker)
    return effectiveRights(maker)
  }

  /** Returns the key that an earlier attempt created. Fails if it was deleted, because the client could not use it. */
  async #readMade(client: StoreClient, { id, key }: { id: number; key: string }): Promise<CreatedKey> {
    await client.unwatch()
    const text = await client.get(this.#names.record(id))
    if (text === null)
      throw conflict('invalid_state', `key ${id}, which this request created, was deleted in the meantime`)
    return { record: decodeRecord(text), key }
  }

  /** @throws {BerthError} `not_found`, `insufficient_scope`, `invalid_state` */
  async update(callerId: number, id: number, fields: KeyFields): Promise<KeyRecord> {
    const changed = await this.options.store.transact('change an API key', async (client) => {
      const keys = await this.#watchAll(client)
      const record = planKeyChange(situationOf(keys, callerId, id), fields)
      await client.multi().set(this.#names.record(id), encodeRecord(record)).incr(this.#names.version).exec()
      return record
    })
    this.options.cache.forget(id)
    return changed
  }

  /**
   * @returns the removed keys: the requested key and, if it is limited, all keys that it created (also indirectly)
   * @throws {BerthError} `not_found`, `insufficient_scope`, `invalid_state`
   */
  async remove(callerId: number, id: number): Promise<KeyRecord[]> {
    const { removed, adopted } = await this.options.store.transact('remove an API key', async (client) => {
      const keys = await this.#watchAll(client)
      const plan = planKeyRemoval(situationOf(keys, callerId, id))
      const multi = client.multi().incr(this.#names.version)
      for (const key of plan.adopted) multi.set(this.#names.record(key.id), encodeRecord(key))
      for (const key of plan.removed)
        multi
          .del([this.#names.record(key.id), this.#names.digest(key.digest)])
          .sRem(this.#names.ids, String(key.id))
          .hDel(this.#names.used, String(key.id))
      await multi.exec()
      return plan
    })
    for (const key of [...removed, ...adopted]) this.options.cache.forget(key.id)
    for (const key of removed) this.options.usage.forget(key.id)
    for (const listener of this.#removedListeners) await listener()
    return removed
  }

  /**
   * Removes the calling key itself, if the command line got it by a login in a browser.
   * @throws {BerthError} `invalid_state` if the key was not created by such a login, or is an administrator's last key
   */
  async removeLogin(id: number): Promise<KeyRecord> {
    const record = getKey(await this.#readAll(), id)
    if (!record.isLogin) throw conflict('invalid_state', 'this key was not created by a login of the command line')
    await this.remove(administratorId, id)
    return record
  }

  async #readAll(): Promise<Map<number, KeyRecord>> {
    return this.options.store.run('read the API keys', (client) => readAllKeys(client, this.#names))
  }

  async #watchAll(client: StoreClient): Promise<Keys> {
    await client.watch(this.#names.version)
    return readAllKeys(client, this.#names)
  }
}

function getKey(keys: Keys, id: number): KeyRecord {
  const record = keys.get(id)
  if (!record) throw notFound('API key')
  return record
}

function situationOf(keys: Keys, callerId: number, id: number): Situation {
  const target = getKey(keys, id)
  if (!isVisible(keys, callerId, target)) throw notFound('API key')
  return { keys, callerId, target, nowMs: Date.now() }
}

function isVisible(keys: Keys, callerId: number, record: KeyRecord): boolean {
  const { containers, disabled } = callerRights(keys, callerId)
  const bound = disabled || containers !== 'all'
  return !bound || mayManage(keys, callerId, record)
}
