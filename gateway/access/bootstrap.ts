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
 * The first administrator's key. `init` writes the key where the administrator reads it and its digest into
 * state_dir; the gateway takes the digest over once, and notes in the store that it did. The file stays, so
 * that the same key works again should the store ever be lost; it goes when an administrator deletes the key.
 */

interface AdminKeyFile {
  /** Of this key file; the store remembers it. */
  readonly id: string
  readonly digest: string
  readonly prefix: string
  readonly createdAtMs: number
}

export function adminKeyFile(stateDir: string): string {
  return join(stateDir, 'admin-key.json')
}

/**
 * Makes an administrator's key, for the gateway to take over when it starts. Run again, it makes another one
 * beside those there are: that is how somebody who has lost the last key gets in.
 * @param keyFile gets the key, mode 0600
 */
export async function createAdminKey(stateDir: string, keyFile: string): Promise<void> {
  const key = createKeySecret()
  const file: AdminKeyFile = {
    id: randomUUID(),
    digest: digestKey(key),
    prefix: shownPrefix(key),
    createdAtMs: Date.now(),
  }
  // In this order: a key file that is there is a key that works.
  await writeFileAtomic(adminKeyFile(stateDir), `${JSON.stringify(file)}\n`)
  await writeFileAtomic(keyFile, `${key}\n`)
}

/**
 * Takes the administrator's key over if the store has never seen it; forgets its file if it was deleted.
 * @throws {BerthError} `store_unavailable`; {Error} for a file that is not what `createAdminKey` writes
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
