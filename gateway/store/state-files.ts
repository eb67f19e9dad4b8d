import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'

/** Files that the gateway creates first, in this order. */
const needed = ['pki/authority.pem', 'secret']
const storeFiles = 'redis/appendonlydir'
const adminKey = 'admin-key.json'

/**
 * Fails if a file of an earlier start is lost. A new one would not help: hosts reject a new authority, and a new secret
 * cannot decrypt stored data.
 * @throws {BerthError} `state_missing`
 */
export function checkStateComplete(directory: string): void {
  const has = (name: string): boolean => existsSync(join(directory, name))
  const missing = needed.find((name) => !has(name))
  // If there is only the administrator's key, no file was lost: this is the first start, which creates the other files.
  const wasComplete = has(storeFiles) || (needed.some(has) && has(adminKey))
  if (missing === undefined || !wasComplete) return
  throw new BerthError(
    'internal',
    'state_missing',
    `${join(directory, missing)} is missing: restore ${directory} from a backup, or start again without the hosts ` +
      `and keys of this gateway: mv '${directory}' '${directory}.damaged'`,
  )
}
