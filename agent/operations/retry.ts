import { setTimeout as delay } from 'node:timers/promises'
import { BerthError, describeError } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { OperationError } from './operation-store.js'
import type { Clock, RetryPolicy } from './types.js'

/** Thrown when the agent shuts down. The operation stays in the journal, and the agent's next start continues it. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

export const systemClock: Clock = {
  now: steadyClock.now,
  sleep: (ms, signal) => delay(ms, undefined, { signal }),
}

export const defaultRetry: RetryPolicy = { firstMs: 1000, maxMs: 60_000, undoAttempts: 4 }

/** Returns the pause before the next attempt. @param attempt number of failed attempts, at least 1 */
export function planBackoffMs({ firstMs, maxMs }: RetryPolicy, attempt: number): number {
  return Math.min(maxMs, firstMs * 2 ** (attempt - 1))
}

const errorLength = 2000

/** Converts any thrown value to an error that the journal can store. */
export function recordedError(error: unknown): OperationError {
  return {
    code: error instanceof BerthError ? error.code : 'internal_error',
    message: shorten(textOf(error), errorLength),
  }
}

/** Combines the errors of a step and of its undo. Shortens both messages, so that the result fits into one field. */
export function recordedUndoFailure(first: OperationError, undo: OperationError, step: string): string {
  const half = errorLength / 2 - 100
  return `${shorten(first.message, half)}; undo of ${shorten(step, 80)} failed: ${shorten(undo.message, half)}`
}

function textOf(error: unknown): string {
  try {
    return describeError(error) || 'the step failed without an error message'
  } catch {
    return String(error) // the value has no JSON form, for example a circular object
  }
}

function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

const passingFaults = [
  'SQLITE_FULL',
  'SQLITE_IOERR',
  'SQLITE_BUSY',
  'SQLITE_NOMEM',
  'SQLITE_READONLY',
  'SQLITE_CANTOPEN', // SQLite cannot open its log when file descriptors run out
]

/** True if the journal cannot be written at the moment, for example because the disk is full. */
export function isStorageFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  return passingFaults.some((fault) => code.startsWith(fault)) || isStorageFault(error.cause)
}
