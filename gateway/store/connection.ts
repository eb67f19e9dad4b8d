import { createClient } from 'redis'
import { BerthError } from '../../shared/errors.js'
import type { AccessOptions, RedisAddress } from './redis-access.js'

/** A Redis server to which the store's clients connect. */
export interface StoreServer {
  /** URL (`redis://`, `rediss://` or `unix:///path`), or host and port from the Sentinels. */
  readonly at: string | RedisAddress
  readonly access: AccessOptions
  /** Time limit in ms of connecting, and of a ping. When the time is over, the connection is dropped. */
  readonly answerTimeoutMs: number
  /** True if the server must be a master. After a failover, it is perhaps no longer the master. */
  readonly mustBeMaster: boolean
  /** True if the store also needs a connection for `Confirmations`. */
  readonly confirms: boolean
}

/**
 * Time limit in ms of an answer if there is no other server to use. It is generous, because a slow answer is better
 * than an error while the disk is overloaded.
 */
const singleServerTimeoutMs = 10_000

/** A server without Sentinels and replicas. */
export function singleServer(url: string, access: AccessOptions = {}): StoreServer {
  return { at: url, access, answerTimeoutMs: singleServerTimeoutMs, mustBeMaster: false, confirms: false }
}

function makeClient({ at, access: { tls, ...login }, answerTimeoutMs }: StoreServer) {
  const place = typeof at === 'string' ? { url: at } : {}
  const address = typeof at === 'string' ? {} : { ...at, ...(tls && { tls: true }) }
  return createClient({
    ...place,
    ...login,
    RESP: 3,
    emitInvalidate: true,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    // Single commands have no timeout, because each timeout would create an AbortSignal, which costs more than the
    // command. `Store` ends hanging commands instead.
    commandOptions: { timeout: 0 },
    // node-redis must not reconnect: `Store` reconnects, each time with a new client.
    socket: { connectTimeout: answerTimeoutMs, reconnectStrategy: false, ...address, ...tls },
  })
}

export type StoreClient = ReturnType<typeof makeClient>

/** The connections to the server. They are created together, and dropped together after a failure. */
export interface StoreConnection {
  /** Connection that all callers share. Commands in one turn of the event loop are pipelined. */
  readonly main: StoreClient
  /** Connection for WATCH, used by one caller at a time. */
  readonly exclusive: StoreClient
  /** Connection for `Confirmations`, if replicas of the server must confirm writes. */
  readonly confirming: StoreClient | undefined
  /**
   * Connection that receives changes of keys and messages of other gateways. Redis closes a connection with a
   * subscription if too much data waits to be sent. Large answers therefore use other connections.
   */
  readonly listening: StoreClient
  /** See StoreServer. */
  readonly answerTimeoutMs: number
  destroy(): void
}

/** Messages for the connection `listening`, and their listeners. */
export interface Subscriptions {
  /** Prefixes of keys whose changes are reported. */
  readonly tracked: readonly string[]
  /** Channel of the messages of all gateways on the store. */
  readonly channel: string
  readonly onInvalidate: (key: string | null) => void
  readonly onMessage: (message: string) => void
  /** Called at most once, when one of the connections breaks. */
  readonly onLost: (cause: unknown) => void
}

/**
 * Connects. Before any other command, requests invalidation messages and subscribes to the channel.
 * @throws the error of the server or the socket
 * Source: https://redis.io/docs/latest/commands/client-tracking/ (BCAST)
 */
export async function connectStore(server: StoreServer, subscriptions: Subscriptions): Promise<StoreConnection> {
  const [main, exclusive, listening] = [makeClient(server), makeClient(server), makeClient(server)]
  const confirming = server.confirms ? makeClient(server) : undefined
  const clients = [main, exclusive, listening, ...(confirming ? [confirming] : [])]
  const connection: StoreConnection = {
    main,
    exclusive,
    confirming,
    listening,
    answerTimeoutMs: server.answerTimeoutMs,
    destroy: () => clients.forEach((client) => client.destroy()),
  }
  let connected = false
  for (const client of clients)
    client.on('error', (cause: unknown) => {
      if (connected) subscriptions.onLost(cause)
      connected = false
    })
  try {
    await withTimeout(server.answerTimeoutMs, prepare(clients, server.mustBeMaster))
    await withTimeout(server.answerTimeoutMs, subscribe(listening, subscriptions))
  } catch (cause) {
    connection.destroy()
    throw cause
  }
  connected = true
  return connection
}

async function prepare(clients: readonly StoreClient[], mustBeMaster: boolean): Promise<void> {
  await Promise.all(clients.map((client) => client.connect()))
  // Turns off the tracking that node-redis requests for `emitInvalidate`, because it reports only keys that this
  // connection has read. `subscribe` requests reports of all keys with the prefixes.
  await Promise.all(clients.map((client) => client.sendCommand(['CLIENT', 'TRACKING', 'OFF'])))
  await clients[0]!.ping() // fails while Redis loads its data
  if (mustBeMaster) await Promise.all(clients.map(checkMaster))
}

async function subscribe(client: StoreClient, { tracked, channel, onInvalidate, onMessage }: Subscriptions) {
  client.on('invalidate', (key: Buffer | string | null) => onInvalidate(key === null ? null : key.toString()))
  const prefixes = tracked.flatMap((prefix) => ['PREFIX', prefix])
  if (tracked.length > 0) await client.sendCommand(['CLIENT', 'TRACKING', 'ON', 'BCAST', ...prefixes])
  await client.subscribe(channel, onMessage)
}

/** @throws {Error} if the connection leads to a replica, for example to a former master that has come back */
async function checkMaster(client: StoreClient): Promise<void> {
  const { role } = (await client.role()) as { role: string }
  if (role !== 'master') throw new Error(`the Redis server has the role ${role} instead of master`)
}

/** `withTimeout` waits for at least this number of turns of the event loop. */
const turns = 24

/**
 * Rejects if `promise` takes longer than `ms`. The timeouts of node-redis only cover the time until a command is
 * written. After a long pause of the event loop, the process must still have a chance to read the answer. `ms` is
 * therefore divided into `turns` parts, and each turn of the event loop counts as at most one part.
 */
export async function withTimeout<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    let left = turns
    const tick = (): void => {
      if (--left === 0) reject(new Error(`no answer within ${ms} ms`))
    }
    timer = setInterval(tick, ms / turns)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearInterval(timer)
  }
}

/** Error replies whose reason is not the command itself, for example full memory or a missing permission. */
const unavailableReply =
  /^(OOM|MISCONF|READONLY|LOADING|BUSY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|NOAUTH|WRONGPASS|NOPERM|TRYAGAIN|UNBLOCKED)\b/

/** Beginning of the reply to EXEC if Redis refused a command of the transaction. The reply to this command follows. */
const abortedBecause = /^EXECABORT Transaction discarded because of: /

/** Converts an error of a command to a BerthError. Only programming errors become `internal_error`. */
export function toStoreError(cause: unknown, step: string): BerthError {
  if (cause instanceof BerthError) return cause
  const isReply = cause instanceof Error && /^[A-Z]{3,}\b/.test(cause.message)
  if (isReply && !unavailableReply.test(cause.message.replace(abortedBecause, '')))
    return new BerthError('internal', 'internal_error', `could not ${step}`, { cause })
  if (cause instanceof TypeError || cause instanceof RangeError || cause instanceof SyntaxError)
    return new BerthError('internal', 'internal_error', `could not ${step}`, { cause })
  return storeUnavailable(step, cause)
}

/** Error for a change that replicas did not confirm. The change is possibly stored, but can still be lost. */
export function unconfirmed(step: string, cause: unknown): BerthError {
  const message = `could not ${step}: the change may be in effect, but the store did not confirm it; try again later`
  return new BerthError('unavailable', 'store_unavailable', message, { cause })
}

/** @param step what the gateway wanted to do, beginning with a verb, for example "read the API keys" */
export function storeUnavailable(step: string, cause?: unknown): BerthError {
  const message = `could not ${step}: the store is not available; try again later`
  return new BerthError('unavailable', 'store_unavailable', message, { cause })
}

/** Error of a gateway that has no usable connection to its store. @param reason why it has none */
export function storeUnreachable(reason: string, cause?: unknown): BerthError {
  const message = `the store is not available: ${reason}; try again later`
  return new BerthError('unavailable', 'store_unavailable', message, { cause })
}
