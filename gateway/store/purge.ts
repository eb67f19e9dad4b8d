import { BerthError } from '../../shared/errors.js'
import { connectStore, toStoreError, type StoreClient } from './connection.js'
import { isAliveHere } from './instance.js'

const keysAtOnce = 1000

/**
 * Removes all keys with a prefix from a server that may be shared, and no others.
 * @returns the number of removed keys
 * @throws {BerthError} `store_shared` when some keys may belong to others; `store_unavailable`
 */
export async function purgeStore(url: string, prefix: string): Promise<number> {
  if (!prefix.endsWith(':'))
    throw new BerthError(
      'conflict',
      'store_shared',
      `redis.prefix does not end with a colon: other keys may also begin with '${prefix}'`,
    )
  const ignore = (): void => undefined
  try {
    const connection = await connectStore(url, [], ignore, ignore)
    try {
      await checkUnused(connection.main, prefix)
      return await removeKeys(connection.main, prefix)
    } finally {
      connection.destroy()
    }
  } catch (cause) {
    throw toStoreError(cause, 'remove keys')
  }
}

/** Refuses while a gateway uses the prefix, which several may share. */
async function checkUnused(client: StoreClient, prefix: string): Promise<void> {
  const leases = `${prefix}instance:`
  for await (const keys of scan(client, leases))
    if (keys.some((key) => isAliveHere(key.slice(leases.length)) ?? true))
      throw new BerthError('conflict', 'store_shared', `another gateway uses the prefix ${prefix} on this Redis server`)
}

async function removeKeys(client: StoreClient, prefix: string): Promise<number> {
  let removed = 0
  for await (const keys of scan(client, prefix)) if (keys.length > 0) removed += await client.unlink(keys)
  return removed
}

/** The prefix has no characters with a meaning in patterns (gateway/config.ts). */
function scan(client: StoreClient, prefix: string): AsyncIterable<string[]> {
  return client.scanIterator({ MATCH: `${prefix}*`, COUNT: keysAtOnce })
}
