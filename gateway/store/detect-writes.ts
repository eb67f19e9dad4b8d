import type { StoreClient } from './connection.js'

/** Methods of the client that change nothing in the store. All others count as writes. */
const reads: ReadonlySet<string> = new Set([
  ...['get', 'mGet', 'exists', 'pTTL', 'scanIterator', 'time', 'ping', 'info', 'role'],
  ...['hGet', 'hmGet', 'hGetAll', 'hVals', 'hKeys', 'hExists', 'hScan'],
  ...['lRange', 'sMembers', 'zRange', 'zCard', 'zScore', 'zCount', 'xRange', 'xRevRange'],
  // These methods only begin or end a transaction. Each command in the transaction is checked separately.
  ...['multi', 'exec', 'watch', 'unwatch'],
])

export interface DetectedWrites {
  /** Client that records whether it is used for a write. */
  readonly client: StoreClient
  /** True after the client was used for a write, even within a transaction. */
  readonly hasWritten: boolean
}

/** Wraps a client to find out whether it is used for a write. */
export function detectWrites(client: StoreClient): DetectedWrites {
  const detected = { client, hasWritten: false }
  detected.client = wrap(client, (method) => {
    if (!reads.has(method)) detected.hasWritten = true
  })
  return detected
}

function wrap<T extends object>(target: T, onCall: (method: string) => void): T {
  const proxy: T = new Proxy(target, {
    get: (_, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function' || typeof name !== 'string') return value
      return (...parameters: unknown[]): unknown => {
        onCall(name)
        const result: unknown = Reflect.apply(value, target, parameters)
        if (result === target) return proxy // a command that returns the transaction itself must return its proxy instead
        return name === 'multi' ? wrap(result as object, onCall) : result
      }
    },
  })
  return proxy
}
