import { createClient } from 'redis'
import { BerthError } from '../../shared/errors.js'

const connectTimeoutMs = 3000

function makeClient(url: string) {
  return createClient({
    url,
    RESP: 3,
    emitInvalidate: true,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    // The default makes an AbortSignal for every command, which costs more than the command; the store's own watch ends
    // commands that hang.
    commandOptions: { timeout: 0 },
    // The store itself reconnects, with a new client each time.
    socket: { connectTimeout: connectTimeoutMs, reconnectStrategy: false },
  })
}

export type StoreClient = ReturnType<typeof makeClient>

/** The connections to the server between two failures; made and dropped together. */
export interface StoreConnection {
  /** Shared by all callers; commands of one turn of the event loop are pipelined. */
  readonly main: StoreClient
  /** For WATCH: one user at a time. */
  readonly exclusive: StoreClient
  destroy(): void
}

/**
 * Connects, and turns on invalidation messages for keys that begin with one of `tracked` before any command can read
 * them.
 * @param onLost called at most once, when either connection breaks later
 * @throws the error of the server or the socket Source: https://redis.io/docs/latest/commands/client-tracking/ (BCAST)
 */
export async function connectStore(
  url: string,
  tracked: readonly string[],
  onInvalidate: (key: string | null) => void,
  onLost: (cause: unknown) => void,
): Promise<StoreConnection> {
  const clients = [makeClient(url), makeClient(url)] as const
  const connection: StoreConnection = {
    main: clients[0],
    exclusive: clients[1],
    destroy: () => clients.forEach((client) => client.destroy()),
  }
  let connected = false
  for (const client of clients)
    client.on('error', (cause: unknown) => {
      if (connected) onLost(cause)
      connected = false
    })
  connection.main.on('invalidate', (key: Buffer | string | null) => onInvalidate(key === null ? null : key.toString()))
  try {
    await withTimeout(connectTimeoutMs, prepare(connection, tracked))
  } catch (cause) {
    connection.destroy()
    throw cause
  }
  connected = true
  return connection
}

async function prepare({ main, exclusive }: StoreConnection, tracked: readonly string[]): Promise<void> {
  await Promise.all([main.connect(), exclusive.connect()])
  // emitInvalidate tracks the keys that this connection reads; instead every change below a prefix is wanted.
  await main.sendCommand(['CLIENT', 'TRACKING', 'OFF'])
  await exclusive.sendCommand(['CLIENT', 'TRACKING', 'OFF'])
  const prefixes = tracked.flatMap((prefix) => ['PREFIX', prefix])
  if (tracked.length > 0) await main.sendCommand(['CLIENT', 'TRACKING', 'ON', 'BCAST', ...prefixes])
  await main.ping() // refused while the server loads its data
}

/** Least number of turns of the event loop that a wait takes. */
const turns = 24

/**
 * `promise`, or a rejection after `ms`; node-redis' own timeouts end once a command is written. Counts only time in
 * which this process could have read the answer: a long turn of the event loop counts as one tick, since what came
 * meanwhile is read after it.
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

/** Replies that mean: not now, or not on this server. */
const unavailableReply =
  /^(OOM|MISCONF|READONLY|LOADING|BUSY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|NOAUTH|WRONGPASS|NOPERM|TRYAGAIN|UNBLOCKED)\b/

/** Converts anything that a command threw to a BerthError; only a bug of ours is internal. */
export function toStoreError(cause: unknown, step: string): BerthError {
  if (cause instanceof BerthError) return cause
  const isReply = cause instanceof Error && /^[A-Z]{3,}\b/.test(cause.message)
  if (isReply && !unavailableReply.test(cause.message))
    return new BerthError('internal', 'internal_error', step, { cause })
  if (cause instanceof TypeError || cause instanceof RangeError || cause instanceof SyntaxError)
    return new BerthError('internal', 'internal_error', step, { cause })
  return storeUnavailable(step, cause)
}

export function storeUnavailable(step: string, cause?: unknown): BerthError {
  return new BerthError('unavailable', 'store_unavailable', `${step}: the store is not available`, { cause })
}
