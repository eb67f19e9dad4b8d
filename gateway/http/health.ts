import { BerthError, describeError } from '../../shared/errors.js'
import { isBound } from '../access/principal.js'
import type { Fleet } from '../fleet/contract.js'
import type { Metrics } from '../metrics.js'
import type { Page } from './app.js'
import { credentialsOf, type ExchangeContext } from './exchange.js'
import { isForwarded, isLoopback, originOf } from '../policy/source.js'
import type { AccessControl, StoreHealth } from '../access/contract.js'
import type { Reply } from './reply.js'

export interface HealthDeps {
  readonly store: StoreHealth
  readonly metrics: Metrics
  readonly fleet: Pick<Fleet, 'isComplete'>
  readonly access: Pick<AccessControl, 'authenticator' | 'authorize' | 'callers'>
  readonly metricsFor: MetricsReaders
  isClosing(): boolean
}

/**
 * Permitted readers of `/metrics`. `loopback`: requests from the gateway's own server that no proxy forwarded. `key`:
 * API keys with the scope `metrics:read`.
 */
export type MetricsReaders = 'loopback_or_key' | 'loopback' | 'key'

const pingTimeoutMs = 2000

/** Pages: `/healthz` (the process runs), `/readyz` (requests can be served), and `/metrics` (see MetricsReaders). */
export function healthPages(deps: HealthDeps): Page[] {
  return [
    { path: '/healthz', handle: () => text(200, 'ok') },
    { path: '/readyz', handle: () => readiness(deps) },
    {
      path: '/metrics',
      handle: async (ctx) => {
        await allowMetrics(deps, ctx)
        const headers = { 'Content-Type': deps.metrics.contentType, 'Cache-Control': 'no-store' }
        return { status: 200, headers, body: await deps.metrics.render() }
      },
    },
  ]
}

async function readiness(deps: HealthDeps): Promise<Reply> {
  if (deps.isClosing()) return text(503, 'shutting down')
  try {
    await Promise.race([deps.store.ping(), timeout()])
    return deps.fleet.isComplete ? text(200, 'ok') : text(503, 'fleet: the list of hosts was not read yet')
  } catch (error) {
    return text(503, `store: ${deps.store.reason() || describeError(error)}`)
  }
}

function timeout(): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no answer within ${pingTimeoutMs} ms`)), pingTimeoutMs).unref()
  })
}

function text(status: number, body: string): Reply {
  const retry = status === 503 ? { 'Retry-After': '5' } : {}
  const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...retry }
  return { status, headers, body: `${body}\n` }
}

/**
 * Permits requests without a key from the gateway's own server. A request that a local proxy forwarded does not count
 * as local.
 * @throws {BerthError} if the caller may not read metrics
 */
async function allowMetrics({ access, metricsFor }: HealthDeps, ctx: ExchangeContext): Promise<void> {
  const { peer, headers } = originOf(ctx.req)
  if (metricsFor !== 'key' && isLoopback(peer) && !isForwarded(headers)) return
  if (metricsFor === 'loopback')
    throw new BerthError('forbidden', 'ip_not_allowed', 'only available from the machine on which the gateway runs')
  const caller = await access.authenticator.authenticate(
    credentialsOf(ctx.req, ctx.state.exchange),
    ctx.state.exchange.address,
  )
  access.callers.enter(caller.root, ctx.state.exchange)
  access.authorize(caller, 'metrics:read')
  if (isBound(caller))
    throw new BerthError('forbidden', 'insufficient_scope', 'not available for keys that are bound to containers')
}
