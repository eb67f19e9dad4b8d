import { BerthError } from '../../shared/errors.js'
import { connectStore, toStoreError, type StoreClient } from './connection.js'
import { ServerFinder, type ServerOptions } from './server-finder.js'
import { isAliveHere } from './instance.js'

const keysAtOnce = 1000

/**
 * Deletes all keys with a prefix, and no others, because the server may be shared.
 * @returns the number of deleted keys
 * @throws {BerthError} `store_shared` if some keys may belong to others, `store_unavailable`
 */
export async function purgeStore(options: ServerOptions, prefix: string): Promise<number> {
  if (!prefix.endsWith(':'))
    throw new BerthError(
      'conflict',
      'store_shared',
      `no keys were removed: redis.prefix does not end with a colon, so keys of other programs may also begin with '${prefix}'`,
    )
  const ignore = (): void => undefined
  const finder = new ServerFinder(options)
  try {
    const listeners = { onInvalidate: ignore, onMessage: ignore, onLost: ignore }
    const connection = await connectStore(await finder.find(), {
      tracked: [],
      channel: `${prefix}visibility`,
      ...listeners,
    })
    try {
      await checkUnused(connection.main, prefix)
      return await removeKeys(connection.main, prefix)
    } finally {
      connection.destroy()
    }
  } catch (cause) {
    throw toStoreError(cause, 'remove the gateway’s keys from Redis')
  } finally {
    finder.close()
  }
}

/** Throws an error if a gateway process uses the prefix, or more than one gateway has joined the fleet. */
async function checkUnused(client: StoreClient, prefix: string): Promise<void> {
  if (countGateways(await client.get(`${prefix}gateways`)) > 1)
    throw new BerthError(
      'conflict',
      'store_shared',
      'other gateways use this store: remove them with DELETE /gateways/ID',
    )
  const leases = `${prefix}instance:`
  for await (const keys of scan(client, leases))
    if (keys.some((key) => isAliveHere(key.slice(leases.length)) ?? true))
      throw new BerthError('conflict', 'store_shared', `another gateway uses the prefix ${prefix} on this Redis server`)
}

/** Number of gateways that have joined, in the document of gateway/gateways/gateways.ts. */
function countGateways(document: string | null): number {
  if (document === null) return 0
  const { value } = JSON.parse(document) as { value: { gateways: { joinedAtMs: number }[] } }
  return value.gateways.filter(({ joinedAtMs }) => joinedAtMs > 0).length
}

async function removeKeys(client: StoreClient, prefix: string): Promise<number> {
  let removed = 0
  for await (const keys of scan(client, prefix)) if (keys.length > 0) removed += await client.unlink(keys)
  return removed
}

/** Finds the keys with the prefix. The configuration permits only prefixes without special characters of patterns. */
function scan(client: StoreClient, prefix: string): AsyncIterable<string[]> {
  return client.scanIterator({ MATCH: `${prefix}*`, COUNT: keysAtOnce })
}
