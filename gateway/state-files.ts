import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BerthError } from '../shared/errors.js'

/** They exist only in a directory that was complete once. */
const lastMade = ['admin-key.json', 'redis/appendonlydir']
const needed = ['pki/authority.pem', 'secret']

/**
 * Refuses to make files anew that were lost: hosts would refuse another authority, and another secret opens nothing.
 * @throws {BerthError} `state_missing`
 */
export function checkStateComplete(directory: string): void {
  if (!lastMade.some((name) => existsSync(join(directory, name)))) return
  const missing = needed.map((name) => join(directory, name)).find((path) => !existsSync(path))
  if (missing === undefined) return
  throw new BerthError(
    'internal',
    'state_missing',
    `${missing} is missing: restore ${directory} from a backup, or begin again without its hosts and keys: ` +
      `mv '${directory}' '${directory}.damaged'`,
  )
}
