import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import type { RateState } from '../access/request-limits.js'
import type { Reply } from './reply.js'

/** One request on its way; what the middlewares share. */
export interface Exchange {
  readonly requestId: string
  /** From performance.now(). */
  readonly startedAtMs: number
  /** The client's, after trusted proxies. */
  readonly address: string
  /** Path template of the route, for metrics and logs. */
  route: string
  /** Who called, once known, for the log. */
  user: string
  reply: Reply | undefined
  /** What the caller has left, for the answer's headers. */
  rate: RateState | undefined
  /** What was thrown, for the log. */
  error: unknown
  /** Called once the answer has gone, or its connection. */
  readonly onGone: (() => void)[]
}

export type ExchangeContext = Context & { state: { exchange: Exchange } }

const saneRequestId = /^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$/

export function openExchange(request: IncomingMessage, address: string): Exchange {
  const sent = request.headers['x-request-id']
  return {
    requestId: typeof sent === 'string' && saneRequestId.test(sent) ? sent : randomUUID(),
    startedAtMs: performance.now(),
    address,
    route: 'unmatched',
    user: '',
    reply: undefined,
    rate: undefined,
    error: undefined,
    onGone: [],
  }
}
