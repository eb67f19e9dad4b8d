import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import type { Credentials } from '../access/contract.js'
import type { RateState } from '../access/request-limits.js'
import type { Reply } from './reply.js'

/** A request in progress, with the data that middlewares share. */
export interface Exchange {
  readonly requestId: string
  /** Start of the request in ms, from performance.now(). */
  readonly startedAtMs: number
  /** Address of the client, even if trusted proxies have forwarded the request. */
  readonly address: string
  /** True if the request was encrypted with TLS, to this gateway or to a trusted proxy. */
  readonly secure: boolean
  /** Path of the route with its parameters as `{id}`, for metrics and logs. */
  route: string
  /** Name of the caller for the log. Empty: not known yet. */
  user: string
  reply: Reply | undefined
  /** State of the caller's request limit, for the headers of the answer. */
  rate: RateState | undefined
  /** The error that was thrown, for the log. */
  error: unknown
  /** Called when the answer has been sent or the connection was closed. */
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

export function credentialsOf(
  { headers, method = '' }: IncomingMessage,
  { secure }: Pick<Exchange, 'secure'>,
): Credentials {
  return { headers, method, secure }
}
