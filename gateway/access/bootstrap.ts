import { randomUUID } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomic } from '../../shared/files.js'
import type { Store } from '../store/store.js'
import type { KeyRecord } from './key-record.js'
import { createKeySecret, digestKey, shownPrefix } from './key-secret.js'
import { insertKey, keyNames } from './key-store.js'
import { everything } from './scopes.js'

/*
 * The first administrator's key. `init` writes the key to a file for the administrator and its digest to state_dir; the
 * gateway imports the digest once and records that in the store. The digest's file stays, so that the key works again
 * if the store is lost; it is removed when an administrator deletes the key.
 */

interface AdminKeyFile {
  /** Id of this key file, recorded in the store. */
  readonly id: string
  readonly digest: string
  readonly prefix: string
  readonly createdAtMs: number
}

export function adminKeyFile(stateDir: string): string {
  return join(stateDir, 'admin-key.json')
}

/**
 * Creates an administrator's key, which the gateway imports at its start. Another run creates an additional key, for an
 * administrator who lost the last one.
 * @param keyFile receives the key, mode 0600
 */
export async function createAdminKey(stateDir: string, keyFile: string): Promise<void> {
  const key = createKeySecret()
  const file: AdminKeyFile = {
    id: randomUUID(),
    digest: digestKey(key),
    prefix: shownPrefix(key),
    createdAtMs: Date.now(),
  }
  // In this order, so that a key file that exists has a working key.
  await writeFileAtomic(adminKeyFile(stateDir), `${JSON.stringify(file)}\n`)
  await writeFileAtomic(keyFile, `${key}\n`)
}

/**
 * Imports the administrator's key if the store has never seen it; removes its file if the key was deleted.
 * @throws {BerthError} `store_unavailable`; {Error} for a file that `createAdminKey` did not write
 */
export async function importAdminKey(store: Store, stateDir: string): Promise<void> {
  const path = adminKeyFile(stateDir)
  const file = await readAdminKeyFile(path)
  if (!file) return
  const names = keyNames(store)
  const marker = store.key('admin-key', file.id)
  const present = await store.transact('import the admin key', async (client) => {
    await client.watch(marker)
    const known = await client.get(marker)
    if (known !== null) {
      const exists = (await client.exists(names.record(Number(known)))) === 1
      await client.unwatch()
      return exists
    }
    const record = adminRecord(await client.incr(names.nextId), file)
    await insertKey(client, names, record, { key: marker, value: String(record.id) })
    return true
  })
  if (!present) await rm(path, { force: true })
}

function adminRecord(id: number, file: AdminKeyFile): KeyRecord {
  return {
    id,
    name: 'admin',
    digest: file.digest,
    prefix: file.prefix,
    addresses: [],
    scopes: [everything],
    expiresAtMs: 0,
    disabled: false,
    containerUuids: [],
    createdAtMs: file.createdAtMs,
    parentId: 0,
  }
}

async function readAdminKeyFile(path: string): Promise<AdminKeyFile | undefined> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined
    throw cause
  })
  if (text === undefined) return undefined
  const file = JSON.parse(text) as Partial<AdminKeyFile>
  if (typeof file.id !== 'string' || !/^[0-9a-f]{64}$/.test(file.digest ?? ''))
    throw new Error(`${path}: not an admin key record`)
  return file as AdminKeyFile
}
