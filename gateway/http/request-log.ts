import type { Context } from 'koa'
import type { Logger } from 'pino'
import { BerthError, describeError } from '../../shared/errors.js'
import type { Exchange } from './exchange.js'

/** Logs a request as debug (reads), info (changes, rejections), warn (temporary failure) or error (internal error). */
export function logRequest(log: Logger, ctx: Context, status: number, seconds: number): void {
  const level = levelOf(ctx.method, status)
  if (!log.isLevelEnabled(level)) return
  const exchange = ctx.state['exchange'] as Exchange
  log[level](
    {
      request_id: exchange.requestId,
      method: ctx.method,
      path: loggedPath(ctx.url),
      status,
      ms: Math.round(seconds * 100_000) / 100,
      address: exchange.address,
      ...(exchange.user === '' ? {} : { user: exchange.user }),
      ...problemOf(exchange.error, status),
    },
    'request',
  )
}

/** Returns the path without the query, which can contain a ticket, and without the code of a sub-user's link. */
export function loggedPath(url: string): string {
  const path = url.split('?', 1)[0] ?? ''
  return path.replace(/(^|\/)u\/[^/]+/gi, '$1u/***').slice(0, 256)
}

const reads = new Set(['GET', 'HEAD', 'OPTIONS'])

function levelOf(method: string, status: number): 'debug' | 'info' | 'warn' | 'error' {
  // The request limit writes its own log lines, at most one per minute and caller.
  if (status === 429) return 'debug'
  if (status >= 500) return status === 503 ? 'warn' : 'error'
  return status >= 400 || !reads.has(method) ? 'info' : 'debug'
}

/** Describes an error: all causes of an internal error, but only the code of a caller's error. */
function problemOf(error: unknown, status: number): object {
  if (error === undefined) return {}
  if (status >= 500 && status !== 503) return { err: error }
  return error instanceof BerthError ? { code: error.code, reason: describeError(error) } : {}
}
