import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '../client/client.js'
import { CliError, exitCodes, RefusedError } from '../errors.js'
import { planPoll } from './plan-follow.js'

export interface PollOptions<T> {
  /** Path of the object below `/api/v1`. */
  readonly path: string
  isEnded(value: T): boolean
  /** Shows the state of an object that is still in progress. */
  show(value: T): void
  /** Time at which the polling ends; Infinity: no limit. */
  readonly endMs: number
  nowMs(): number
  /** Returns the error if the time is over. */
  timedOut(): CliError
}

/** Longest time during which the gateway may be unreachable, for example while it restarts. */
const graceMs = 60_000

/**
 * Reads an object again and again until it has ended.
 * @throws {CliError} unreachable if the time is over or the gateway does not answer
 */
export async function pollUntilEnd<T>(client: Client, options: PollOptions<T>): Promise<T> {
  let lostSinceMs: number | undefined
  for (let poll = 0; ; poll++) {
    const answer = await readOnce<T>(client, options.path)
    if (answer instanceof CliError) {
      lostSinceMs ??= options.nowMs()
      if (options.nowMs() - lostSinceMs > graceMs) throw answer
    } else {
      lostSinceMs = undefined
      if (options.isEnded(answer)) return answer
      options.show(answer)
    }
    const leftMs = options.endMs - options.nowMs()
    if (leftMs <= 0) throw options.timedOut()
    await delay(Math.min(planPoll(poll), leftMs))
  }
}

/** Returns the object, or the error if the gateway is only unreachable for the moment. */
async function readOnce<T>(client: Client, path: string): Promise<T | CliError> {
  try {
    const { body } = await client.send({ method: 'GET', path })
    return body.data as T
  } catch (cause) {
    const isTemporary = cause instanceof CliError && cause.exitCode === exitCodes.unreachable
    if (isTemporary || (cause instanceof RefusedError && cause.status >= 500)) return cause
    throw cause
  }
}
