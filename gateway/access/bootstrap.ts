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
 * This module handles the first administrator's key. `init` writes the key to a file for the administrator, and the
 * key's digest to a file in state_dir. The gateway imports the digest once for each store. It keeps the digest file, so
 * that the key works again after a loss of the store. When an administrator deletes the key, the gateway removes the
 * digest file.
 */

interface AdminKeyFile {
  /** Id of this file. When the gateway imports the key, it writes this id to the store. */
  readonly id: string
  readonly digest: string
  readonly prefix: string
  readonly createdAtMs: number
}

export function adminKeyFile(stateDir: string): string {
  return join(stateDir, 'admin-key.json')
}

/**
 * Creates an administrator's key. The gateway imports the key when it starts next. Each call creates another key, which
 * helps if an earlier key was lost.
 * @param keyFile path of a new file with the key, mode 0600
 */
export async function createAdminKey(stateDir: string, keyFile: string): Promise<void> {
  const key = createKeySecret()
  const file: AdminKeyFile = {
    id: randomUUID(),
    digest: digestKey(key),
    prefix: shownPrefix(key),
    createdAtMs: Date.now(),
  }
  // The digest is written first, so that an existing key file always contains a working key.
  await writeFileAtomic(adminKeyFile(stateDir), `${JSON.stringify(file)}\n`)
  await writeFileAtomic(keyFile, `${key}\n`)
}

/**
 * Imports the administrator's key from its file, once for each store. If the key was deleted, removes the file.
 * @throws {BerthError} `store_unavailable`
 * @throws {Error} if the file is damaged
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
    throw new Error(`${path} does not contain a valid admin key`)
  return file as AdminKeyFile
}
