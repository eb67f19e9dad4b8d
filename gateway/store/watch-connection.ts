import { setTimeout as delay } from 'node:timers/promises'
import { describeError } from '../../shared/errors.js'
import { confirmTimeoutMs } from './confirmations.js'
import { withTimeout, type StoreConnection } from './connection.js'

const pingEveryMs = 400

export interface ConnectionWatch {
  readonly connection: StoreConnection
  /** False after the connection was dropped. This ends the watch. */
  readonly isCurrent: () => boolean
  /** Pings the server on the connections that reads and messages use. */
  readonly ping: () => Promise<void>
  /** Asks the Sentinels. @returns why the server must no longer be used. "": it is still the master */
  readonly checkServer: () => Promise<string>
  readonly drop: (why: string) => void
  /** Ends the pauses between pings. */
  readonly stop: AbortSignal
}

/** Sends pings, and asks the Sentinels, until the connection is dropped or replaced. */
export async function watchConnection(watch: ConnectionWatch): Promise<void> {
  await Promise.all([watchServer(watch), watchWriters(watch)])
}

async function watchServer(watch: ConnectionWatch): Promise<void> {
  const { isCurrent, ping, checkServer, drop, stop } = watch
  while (isCurrent()) {
    await pause(pingEveryMs, stop)
    if (!isCurrent() || stop.aborted) return
    const answered = ping().catch((cause: unknown) => drop(describeError(cause)))
    const checked = checkServer().then((why) => why !== '' && drop(why))
    await Promise.all([answered, checked])
  }
}

/** Pings the connections that are only used for writes. Hanging writes would otherwise not be noticed. */
async function watchWriters({ connection, isCurrent, drop, stop }: ConnectionWatch): Promise<void> {
  const { exclusive, confirming } = connection
  const timeoutMs = confirmTimeoutMs + connection.answerTimeoutMs // an earlier WAIT (for replicas) can delay the answer
  while (isCurrent()) {
    await pause(pingEveryMs, stop)
    if (!isCurrent()) return
    const answered = Promise.all([exclusive.ping(), confirming?.ping()])
    await withTimeout(timeoutMs, answered).catch((cause: unknown) => drop(describeError(cause)))
  }
}

/** Waits for `ms`, or until the signal is aborted. Never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined)
}
