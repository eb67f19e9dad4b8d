import type { IncomingMessage, ServerResponse } from 'node:http'
import Router from '@koa/router'
import Koa from 'koa'
import type { Logger } from 'pino'
import { BerthError } from '../../shared/errors.js'
import { sourceOf } from '../../shared/source-address.js'
import type { Fleet } from '../fleet/contract.js'
import type { HttpMetrics } from '../metrics.js'
import { drainRest } from './body.js'
import { logConnectionError } from '../sockets/broken-off.js'
import { createDispatcher } from './dispatch.js'
import { errorReply } from './errors.js'
import { deniedByPolicy } from '../policy/denied.js'
import { originOf } from '../policy/source.js'
import { openExchange, type Exchange, type ExchangeContext } from './exchange.js'
import { checkHostHeader } from '../sockets/host-header.js'
import { collapseSlashes, tidyHeaders } from './leniency.js'
import type { AccessControl } from '../access/contract.js'
import type { AccessPolicies } from '../policy/access-policy.js'
import type { OpenSockets } from '../policy/open-sockets.js'
import { sendReply, type Reply } from './reply.js'
import { logRequest } from './request-log.js'
import type { Route } from './route.js'
import { checkRoutes, orderRoutes } from './table.js'

/** A page that is not a route of the API, for example health, metrics or documents. */
export interface Page {
  readonly path: string
  handle(ctx: ExchangeContext): Promise<Reply> | Reply
}

export interface AppOptions {
  readonly routes: readonly Route[]
  readonly pages: readonly Page[]
  readonly access: AccessControl
  readonly fleet: Pick<Fleet, 'view' | 'findOperation' | 'findUnreported' | 'expectedConnections'>
  readonly maxBodyBytes: number
  readonly policies: Pick<AccessPolicies, 'judge'>
  readonly openSockets: Pick<OpenSockets, 'note'>
  /** `hsts`: value of the header Strict-Transport-Security; undefined: the header is not sent. */
  readonly tls: { readonly hsts: string | undefined }
  readonly metrics: HttpMetrics
  readonly log: Logger
}

/**
 * Creates the HTTP interface: the routes under `/api/v1` and `/api`, and the pages.
 * @throws {Error} for a route that breaks the rules of `checkRoutes`, so that the gateway does not start
 */
export function createApp(options: AppOptions): Koa {
  checkRoutes(options.routes)
  const router = createRouter(options)
  const app = new Koa()
  app.use(async (ctx, next) => {
    tidyHeaders(ctx.req.headers)
    ctx.req.url = collapseSlashes(ctx.req.url ?? '/')
    // While the store is down, the last known access policy applies. `openPages` ignore the policy and must not wait.
    if (!openPages.includes(pathOf(ctx.req))) await options.access.shared.current().catch(() => undefined)
    const origin = originOf(ctx.req)
    const judgement = options.policies.judge(origin)
    options.openSockets.note(ctx.req.socket, origin)
    const { allowed } = judgement
    const exchange = openExchange(ctx.req, judgement)
    const hsts = origin.encrypted ? options.tls.hsts : undefined
    ctx.state['exchange'] = exchange
    ctx.respond = false
    const reply = await replyTo(ctx, { addresses: options.access.addresses, allowed, next })
    try {
      const { requestId, rate } = exchange
      sendReply(ctx.res, reply, { requestId, rate, hsts }, drainRest(ctx.req))
    } finally {
      whenGone(ctx.res, exchange)
    }
    const seconds = (performance.now() - exchange.startedAtMs) / 1000
    options.metrics.observe(exchange.route, ctx.method, reply.status, seconds)
    logRequest(options.log, ctx, reply.status, seconds)
  })
  app.use(router.routes())
  app.on('error', (error: unknown) => logConnectionError(options.log, error, 'http'))
  return app
}

/** Time in ms after which a client that does not read its answer is disconnected. */
const stalledMs = 60_000

/** Runs `onGone` when the client has received the answer. Until then the request is in progress and uses memory. */
function whenGone(response: ServerResponse, { onGone }: Exchange): void {
  const gone = (): void => onGone.forEach((run) => run())
  const isSent = response.writableEnded && response.writableLength === 0
  if (isSent || response.destroyed) return gone()
  response.once('close', gone)
  if (!response.writableEnded) return // other code checks if the client of a stream reads
  response.setTimeout(stalledMs, () => response.destroy())
}

function createRouter(options: AppOptions): Router {
  const router = new Router({ sensitive: true })
  for (const route of orderRoutes(options.routes)) {
    const path = `/api{/v1}${route.path.replaceAll(/\{(\w+)\}/g, ':$1')}`
    const dispatch = createDispatcher(route, options)
    router.register(path, [route.method], (ctx) => dispatch(ctx))
  }
  for (const page of options.pages)
    router.get(page.path, async (context) => {
      const ctx = context as unknown as ExchangeContext
      ctx.state.exchange.route = page.path
      ctx.state.exchange.reply = await page.handle(ctx)
    })
  return router
}

interface Admission extends Pick<AccessControl, 'addresses'> {
  /** True if the access policy permits the client's address. */
  readonly allowed: boolean
  readonly next: () => Promise<unknown>
}

async function replyTo(ctx: ExchangeContext, { addresses, allowed, next }: Admission): Promise<Reply> {
  const exchange: Exchange = ctx.state.exchange
  try {
    checkProtocol(ctx.req)
    checkTarget(ctx)
    if (!openPages.includes(ctx.path)) {
      addresses.enter(sourceOf(exchange.address), exchange)
      if (!allowed) throw deniedByPolicy()
    }
    await next()
    return exchange.reply ?? unmatched(ctx)
  } catch (error) {
    exchange.error = error
    return errorReply(error, exchange.requestId)
  }
}

/** Rejects requests that Node would otherwise answer in another form than the API (RFC 9112, 3.2; RFC 9110, 10.1.1). */
function checkProtocol(request: IncomingMessage): void {
  checkHostHeader(request)
  const { headers } = request
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue')
    throw new BerthError('invalid', 'expectation_failed', 'Expect: only 100-continue is supported')
}

/** Pages that are available from all addresses, even during a flood of requests, for monitoring. */
const openPages: readonly string[] = ['/healthz', '/readyz']

const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0]!

/** Rejects malformed URLs. Koa would parse them later and throw. */
function checkTarget(ctx: ExchangeContext): void {
  try {
    if (typeof ctx.path === 'string') return
  } catch (cause) {
    throw new BerthError('invalid', 'invalid_request', 'the request target is not a URL', { cause })
  }
  throw new BerthError('invalid', 'invalid_request', 'the request target is not a URL')
}

/** Answers a request that matches no route, because its path is unknown or its method is not allowed. */
function unmatched(ctx: ExchangeContext): Reply {
  const layers = (ctx as unknown as { matched?: { methods: string[] }[] }).matched ?? []
  const methods = [...new Set(layers.flatMap((layer) => layer.methods))]
  if (methods.length === 0) throw unknownPath(ctx.path)
  const allow = { Allow: [...methods, 'OPTIONS'].sort().join(', ') }
  if (ctx.method === 'OPTIONS') return { status: 204, headers: allow, body: '' }
  const refusal = new BerthError('invalid', 'method_not_allowed', `${ctx.method} is not allowed for this path`)
  const reply = errorReply(refusal, ctx.state.exchange.requestId)
  return { ...reply, headers: { ...reply.headers, ...allow } }
}

/** Error for an unknown path. The code `not_found` would make billing systems believe that a guest was deleted. */
function unknownPath(path: string): BerthError {
  if (/^\/api(\/v1)?\/(ssh|vnc)$/.test(path))
    return new BerthError('invalid', 'invalid_request', 'this endpoint is a WebSocket: send Upgrade: websocket')
  if (!/^\/api(\/|$)/.test(path)) return new BerthError('not_found', 'not_found', 'page not found')
  return new BerthError('unsupported', 'unsupported', 'this endpoint does not exist in this version: see /docs')
}
