import type { Context } from 'koa'
import type { Logger } from 'pino'
import { BerthError } from '../../shared/errors.js'
import type { Exchange } from './exchange.js'

/** Writes and refusals at info, our own failures at error, plain reads at debug. */
export function logRequest(log: Logger, ctx: Context, status: number, seconds: number): void {
  const level = levelOf(ctx.method, status)
  if (!log.isLevelEnabled(level)) return
  const exchange = ctx.state['exchange'] as Exchange
  log[level](
    {
      request_id: exchange.requestId,
      method: ctx.method,
      // The path only: a query may carry a ticket.
      path: ctx.url.split('?', 1)[0]?.slice(0, 256),
      status,
      ms: Math.round(seconds * 100_000) / 100,
      address: exchange.address,
      ...(exchange.user === '' ? {} : { user: exchange.user }),
      ...problemOf(exchange.error, status),
    },
    'request',
  )
}

function levelOf(method: string, status: number): 'debug' | 'info' | 'error' {
  if (status >= 500) return 'error'
  return status >= 400 || (method !== 'GET' && method !== 'HEAD') ? 'info' : 'debug'
}

/** The whole chain where the fault is ours, the code where it is the caller's. */
function problemOf(error: unknown, status: number): object {
  if (error === undefined) return {}
  if (status >= 500) return { err: error }
  return error instanceof BerthError ? { code: error.code } : {}
}
