import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { BerthError } from '../../shared/errors.js'
import { readOrCreateKey } from '../../shared/sealing.js'
import type { GuestStore } from '../guests/record/guest-store.js'
import type { Database } from '../state/database.js'
import { findSetting, putSetting } from '../state/settings-table.js'

/** Reads or creates the key that encrypts guests' logins. Never creates a key while such logins are stored. */
export async function openSecret(path: string, store: GuestStore): Promise<Buffer> {
  if (store.hasLogins() && !existsSync(path))
    throw new BerthError(
      'internal',
      'secret_missing',
      `${path} is missing: restore it and journal.db, the database of the agent, from the same backup`,
    )
  const key = await readOrCreateKey(path)
  checkSameSecret(store.changes.db, path, key)
  return key
}

/** Compares the key with its digest in the journal, because a damaged key can look like a valid one. */
function checkSameSecret(db: Database, path: string, key: Buffer): void {
  const setting = 'secret_digest'
  const digest = createHash('sha256').update(key).digest('hex')
  const known = findSetting(db, setting)
  if (known === undefined) return putSetting(db, setting, digest)
  if (known !== digest)
    throw new BerthError(
      'internal',
      'secret_damaged',
      `${path} is not the key with which the passwords in journal.db are encrypted: restore both files from the same backup`,
    )
}
