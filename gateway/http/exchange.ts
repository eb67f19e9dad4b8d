import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import type { Credentials } from '../access/contract.js'
import type { RateState } from '../access/request-limits.js'
import type { Reply } from './reply.js'

/** A request in progress: what the middlewares share. */
export interface Exchange {
  readonly requestId: string
  /** From performance.now(). */
  readonly startedAtMs: number
  /** Client address, after trusted proxies. */
  readonly address: string
  /** True if it came over TLS, here or at a trusted proxy. */
  readonly secure: boolean
  /** Path template of the route, for metrics and logs. */
  route: string
  /** Name of the caller, once known; for the log. */
  user: string
  reply: Reply | undefined
  /** The caller's rate, for the answer's headers. */
  rate: RateState | undefined
  /** The thrown error, for the log. */
  error: unknown
  /** Called once the answer has been sent, or the connection closed. */
  readonly onGone: (() => void)[]
}

export type ExchangeContext = Context & { state: { exchange: Exchange } }

const saneRequestId = /^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$/

export function openExchange(
  request: IncomingMessage,
  { address, secure }: Pick<Exchange, 'address' | 'secure'>,
): Exchange {
  const sent = request.headers['x-request-id']
  return {
    requestId: typeof sent === 'string' && saneRequestId.test(sent) ? sent : randomUUID(),
    startedAtMs: performance.now(),
    address,
    secure,
    route: 'unmatched',
    user: '',
    reply: undefined,
    rate: undefined,
    error: undefined,
    onGone: [],
  }
}

/** The parts of a request that identify its caller. */
export function credentialsOf(
  { headers, method = '' }: IncomingMessage,
  { secure }: Pick<Exchange, 'secure'>,
): Credentials {
  return { headers, method, secure }
}
