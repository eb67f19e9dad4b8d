import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { parseBody, parseOptionalBody, readBody } from './body.js'
import { getSubject, refuseBound, toldTo, type Subject } from './bound.js'
import type { ExchangeContext } from './exchange.js'
import type { AccessControl } from '../access/contract.js'
import type { Principal } from '../access/principal.js'
import type { Fleet, GuestView, OperationView } from '../fleet/contract.js'
import { guestUuidOf } from '../fleet/operation-subject.js'
import { answerReply, type Reply } from './reply.js'
import { isRepeatable, type RequestContext, type Route } from './route.js'
import { compileChecks, parseQuery, type RouteChecks } from './validation.js'
import { failedHandling, runWrite, type Handled } from './write.js'

export interface DispatchOptions {
  readonly access: AccessControl
  readonly fleet: Pick<Fleet, 'view' | 'findOperation'>
  readonly maxBodyBytes: number
  readonly log: Logger
}

type AnyContext = RequestContext<unknown, unknown, unknown>

interface ValidRequest {
  readonly params: Record<string, unknown>
  readonly query: Record<string, unknown>
  readonly body: Record<string, unknown>
  readonly bodyBytes: Buffer
}

/**
 * The request path of one route: authenticate, count, authorize, validate, find what the path names, handle; writes are
 * audited.
 * @returns middleware that leaves its reply in the exchange and throws BerthError
 */
export function createDispatcher(
  route: Route,
  options: DispatchOptions,
): (ctx: ExchangeContext) => Promise<void> {
  const checks = compileChecks(route)
  const { authenticator, authorize, callers } = options.access
  return async (ctx) => {
    const exchange = ctx.state.exchange
    exchange.route = route.path
    const caller = await authenticator.authenticate(ctx.req, exchange.address)
    exchange.user = caller.user
    callers.enter(caller.ref, exchange)
    exchange.rate = callers.state(caller.ref)
    authorize(caller, route.scope)
    refuseBound(route, caller)
    const request =
      route.method === 'GET'
        ? readTarget(checks, ctx)
        : await readRequest(route, checks, ctx, options.maxBodyBytes)
    exchange.reply = isWrite(route)
      ? await answerWrite(route, options, { ctx, caller, request })
      : await answerRead(route, options, { ctx, caller, request })
  }
}

interface Ready {
  readonly ctx: ExchangeContext
  readonly caller: Principal
  readonly request: ValidRequest
}

function isWrite(route: Route): boolean {
  return route.method !== 'GET'
}

/** Everything but the body. */
function readTarget(checks: RouteChecks, ctx: ExchangeContext): ValidRequest {
  const params = checks.params(ctx.params as Record<string, string>)
  const query = checks.query(parseQuery(ctx.querystring))
  return { params, query, body: {}, bodyBytes: empty }
}

async function readRequest(
  route: Route,
  checks: RouteChecks,
  ctx: ExchangeContext,
  maxBodyBytes: number,
): Promise<ValidRequest> {
  const target = readTarget(checks, ctx)
  const bodyBytes = await readBody(ctx.req, maxBodyBytes)
  const body = checks.body(bodyOf(route, bodyBytes, ctx.req.headers['content-type']))
  return { ...target, body, bodyBytes }
}

function bodyOf(route: Route, bytes: Buffer, contentType: string | undefined): Record<string, unknown> {
  if (!route.body) return {}
  return route.bodyOptional ? parseOptionalBody(bytes) : parseBody(bytes, contentType)
}

const empty = Buffer.alloc(0)

async function answerRead(route: Route, options: DispatchOptions, ready: Ready): Promise<Reply> {
  const subject = await subjectOf(route, options, ready)
  const context = new HandlerContext(ready, options.log, { operationId: '', subject, audit: () => undefined })
  try {
    return answerReply(await route.handle(context), ready.ctx.req)
  } catch (error) {
    throw toldTo(ready.caller, error)
  }
}

async function answerWrite(route: Route, options: DispatchOptions, ready: Ready): Promise<Reply> {
  const { ctx, caller, request } = ready
  const exchange = ctx.state.exchange
  const write = {
    method: route.method,
    path: ctx.path.replace(/^\/api(\/v1)?/, ''),
    querystring: ctx.querystring,
    bodyBytes: request.bodyBytes,
    idempotencyKey: isRepeatable(route) ? headerOf(ctx.req, 'idempotency-key') : undefined,
    caller,
    address: exchange.address,
    requestId: exchange.requestId,
    action: route.audit === false ? undefined : route.audit,
    target: targetOf(request),
  }
  const report = (error: unknown): void =>
    options.log.error({ err: error, request_id: exchange.requestId }, 'after a write')
  const handled = await runWrite(
    options.access,
    write,
    (id) => handleWrite(route, options, ready, id),
    report,
  )
  exchange.error = handled.error
  return handled.reply
}

async function handleWrite(
  route: Route,
  options: DispatchOptions,
  ready: Ready,
  operationId: string,
): Promise<Handled> {
  const audited: { target: string; detail: string; containerUuid?: string } = {
    target: targetOf(ready.request),
    detail: '',
  }
  const audit: AnyContext['audit'] = (entry) => void Object.assign(audited, entry)
  try {
    // Not before: what an Idempotency-Key repeats is answered also where its guest is gone by now.
    const subject = await subjectOf(route, options, ready)
    Object.assign(audited, auditedOf(subject))
    const context = new HandlerContext(ready, options.log, { operationId, subject, audit })
    const answer = await route.handle(context)
    return { reply: answerReply(answer, ready.ctx.req), ...audited, unsettled: answer.unsettled ?? false }
  } catch (error) {
    return failedHandling(toldTo(ready.caller, error), audited, ready.ctx.state.exchange.requestId)
  }
}

/** Waits only where something has to be asked for: most lookups are in memory. */
function subjectOf(route: Route, { fleet }: DispatchOptions, { caller, request }: Ready) {
  return getSubject(fleet, route, { caller, params: request.params })
}

/** How the audit entry names what a request is about. */
function auditedOf({ guest, task }: Subject): { target?: string; containerUuid?: string } {
  if (guest) return { target: guest.guest.name, containerUuid: guest.guest.uuid }
  return task ? { containerUuid: guestUuidOf(task.operation) } : {}
}

interface Handling {
  readonly operationId: string
  readonly subject: Subject
  readonly audit: AnyContext['audit']
}

/** A class, since it is made for every request: a literal with a getter costs ten times as much. */
class HandlerContext implements AnyContext {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
  readonly caller: Principal
  readonly requestId: string
  readonly headers: IncomingMessage['headers']
  readonly peer: string
  readonly operationId: string
  readonly guest: GuestView | undefined
  readonly task: OperationView | undefined
  readonly audit: AnyContext['audit']
  readonly #log: Logger

  constructor({ ctx, caller, request }: Ready, log: Logger, { operationId, subject, audit }: Handling) {
    this.operationId = operationId
    this.guest = subject.guest
    this.task = subject.task
    this.audit = audit
    this.params = request.params
    this.query = request.query
    this.body = request.body
    this.caller = caller
    this.requestId = ctx.state.exchange.requestId
    this.headers = ctx.req.headers
    this.peer = ctx.req.socket.remoteAddress ?? ''
    this.#log = log
  }

  /** Made when a handler asks for it: most requests log nothing of their own. */
  get log(): Logger {
    return this.#log.child({ request_id: this.requestId })
  }
}

/** What a write acts on, as far as the request itself says. */
function targetOf(request: ValidRequest): string {
  const named = Object.values(request.params).join('/') || request.body['name']
  return typeof named === 'string' || typeof named === 'number' ? String(named).slice(0, 128) : ''
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return Array.isArray(value) ? value.join(',') : value
}
