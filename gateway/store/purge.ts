import { BerthError } from '../../shared/errors.js'
import { connectStore, toStoreError, type StoreClient } from './connection.js'
import { ServerFinder, type ServerOptions } from './server-finder.js'
import { isAliveHere } from './instance.js'

const keysAtOnce = 1000

/**
 * Deletes all keys with a prefix. Keeps all other keys, because other programs can use the server, too.
 * @param ownId id of this host's gateway in the list of gateways; undefined if this host has no gateway
 * @returns the number of deleted keys
 * @throws {BerthError} `store_shared` if keys can belong to other programs or gateways, `store_unavailable`
 */
export async function purgeStore(options: ServerOptions, prefix: string, ownId?: string): Promise<number> {
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
      checkAlone(await connection.main.get(`${prefix}gateways`), ownId)
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

/** Throws an error if a gateway is using Redis keys with the prefix. */
async function checkUnused(client: StoreClient, prefix: string): Promise<void> {
  const leases = `${prefix}instance:`
  for await (const keys of scan(client, leases))
    if (keys.some((key) => isAliveHere(key.slice(leases.length)) ?? true))
      throw new BerthError('conflict', 'store_shared', `another gateway uses the prefix ${prefix} on this Redis server`)
}

interface StoredGateways {
  readonly value: {
    readonly gateways: readonly { readonly id: string; readonly joinedAtMs: number }[]
    readonly removed: readonly string[]
  }
}

/**
 * Throws an error if other gateways use the store, or the fleet of the store has removed this gateway.
 * @param document the list of gateways (gateway/gateways/gateways.ts), as it is stored
 */
function checkAlone(document: string | null, ownId: string | undefined): void {
  if (document === null) return
  const { gateways, removed } = (JSON.parse(document) as StoredGateways).value
  if (ownId !== undefined && removed.includes(ownId))
    throw shared('this gateway was removed from the fleet whose data the store contains: delete only state_dir')
  const others = gateways.filter(({ id, joinedAtMs }) => joinedAtMs > 0 && id !== ownId)
  if (others.length > (ownId === undefined ? 1 : 0))
    throw shared('other gateways use this store: remove them with DELETE /gateways/ID')
}

const shared = (message: string): BerthError => new BerthError('conflict', 'store_shared', message)

async function removeKeys(client: StoreClient, prefix: string): Promise<number> {
  let removed = 0
  for await (const keys of scan(client, prefix)) if (keys.length > 0) removed += await client.unlink(keys)
  return removed
}

/** Finds the keys with the prefix. The configuration permits only prefixes without special characters of patterns. */
function scan(client: StoreClient, prefix: string): AsyncIterable<string[]> {
  return client.scanIterator({ MATCH: `${prefix}*`, COUNT: keysAtOnce })
}
