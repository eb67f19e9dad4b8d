import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { isForm, parseBody, parseOptionalBody, readBody } from './body.js'
import { getSubject, refuseBound, toldTo, type BoundSubject } from './bound.js'
import { credentialsOf, type ExchangeContext } from './exchange.js'
import { ofAgents } from './failures.js'
import { noteForgery } from './forgery.js'
import { refuseUnconfirmed } from './confirmed.js'
import { explainMissing } from './missing-field.js'
import type { AccessControl, Authenticator } from '../access/contract.js'
import { refuseOtherSites } from '../accounts/same-site.js'
import { nobody, type Principal } from '../access/principal.js'
import type { AccessPolicies } from '../policy/access-policy.js'
import { deniedByPolicy } from '../policy/denied.js'
import { originOf } from '../policy/source.js'
import type { Fleet, GuestView, OperationView } from '../fleet/contract.js'
import { guestUuidOf } from '../fleet/operation-subject.js'
import { answerReply, type Reply } from './reply.js'
import { isRepeatable, type RequestContext, type Route } from './route.js'
import { refuseInView, refuseKeys } from './session-rules.js'
import { refuseSubUser, scopeFor } from './sub-user.js'
import { openUpload } from './upload.js'
import { compileChecks, parseQuery, type RouteChecks } from './validation.js'
import { failedHandling, runWrite, type HandlerOutcome } from './write.js'

export interface DispatchOptions {
  readonly access: AccessControl
  readonly fleet: Pick<Fleet, 'view' | 'findOperation' | 'findUnreported' | 'expectedConnections'>
  readonly maxBodyBytes: number
  readonly policies: Pick<AccessPolicies, 'judge'>
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
 * Processes requests of a route: authenticate, apply the request limit, authorize, validate, find the guest or task,
 * run the handler. Changes are audited.
 * @returns middleware that stores the reply in the exchange, or throws BerthError
 */
export function createDispatcher(route: Route, options: DispatchOptions): (ctx: ExchangeContext) => Promise<void> {
  const checks = compileChecks(route)
  const { authenticator, authorize, callers } = options.access
  return async (ctx) => {
    const exchange = ctx.state.exchange
    exchange.route = route.path
    const caller = await callerOf(route, authenticator, ctx).catch(async (error: unknown) => {
      await noteForgery(options.access, route, ctx, error).catch((err: unknown) =>
        options.log.error(
          { err, request_id: exchange.requestId },
          'could not record a forged request in the audit log',
        ),
      )
      throw error
    })
    exchange.user = caller.user
    if (caller !== nobody) {
      callers.enter(caller.root, exchange)
      exchange.rate = callers.state(caller.root)
    }
    refuseSubUser(route, caller)
    authorize(caller, scopeFor(route, caller))
    refuseBound(route, caller)
    refuseKeys(route, caller)
    refuseInView(route, caller)
    refuseUnconfirmed(route, caller)
    const request =
      route.method === 'GET'
        ? readTarget(checks, ctx)
        : await readRequest(route, checks, ctx, { caller, maxBodyBytes: options.maxBodyBytes })
    exchange.reply = isWrite(route)
      ? await answerWrite(route, options, { ctx, caller, request })
      : await answerRead(route, options, { ctx, caller, request })
  }
}

/** Finds the caller. On public routes, rejects changes by pages of other sites, such as a login to another account. */
async function callerOf(
  { scope, method }: Route,
  authenticator: Authenticator,
  ctx: ExchangeContext,
): Promise<Principal> {
  const { address, secure } = ctx.state.exchange
  if (scope !== 'public') return authenticator.authenticate(credentialsOf(ctx.req, ctx.state.exchange), address)
  if (method !== 'GET') refuseOtherSites(ctx.req.headers, secure)
  return nobody
}

interface Ready {
  readonly ctx: ExchangeContext
  readonly caller: Principal
  readonly request: ValidRequest
}

function isWrite(route: Route): boolean {
  return route.method !== 'GET'
}

function readTarget(checks: RouteChecks, ctx: ExchangeContext): ValidRequest {
  const params = checks.params(ctx.params as Record<string, string>)
  const query = checks.query(parseQuery(ctx.querystring))
  return { params, query, body: {}, bodyBytes: empty }
}

async function readRequest(
  route: Route,
  checks: RouteChecks,
  ctx: ExchangeContext,
  { caller, maxBodyBytes }: { readonly caller: Principal; readonly maxBodyBytes: number },
): Promise<ValidRequest> {
  const target = readTarget(checks, ctx)
  if (route.uploads) {
    openUpload(ctx.req, route.uploads)
    return target
  }
  const bodyBytes = await readBody(ctx.req, maxBodyBytes)
  const sent = bodyOf(route, bodyBytes, { caller, contentType: ctx.req.headers['content-type'] })
  return { ...target, body: checks.body(sent), bodyBytes }
}

function bodyOf(
  route: Route,
  bytes: Buffer,
  { caller, contentType }: { readonly caller: Principal; readonly contentType: string | undefined },
): Record<string, unknown> {
  if (!route.body) return {}
  if (caller.kind === 'session' && bytes.length > 0 && isForm(contentType)) return parseBody(bytes, contentType)
  return route.bodyOptional
    ? parseOptionalBody(bytes)
    : parseBody(bytes, contentType, { allowsForm: caller.kind === 'key' })
}

const empty = Buffer.alloc(0)

async function answerRead(route: Route, options: DispatchOptions, ready: Ready): Promise<Reply> {
  const subject = await subjectOf(route, options, ready)
  const context = new HandlerContext(ready, options.log, {
    operationId: '',
    subject,
    audit: () => undefined,
    recheck: () => recheck(route, options, ready),
  })
  try {
    return answerReply(await route.handle(context), ready.ctx.req)
  } catch (error) {
    throw toldTo(ready.caller, explainMissing(error, ready.request, ready.ctx.querystring))
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
    target: targetOf(route, request),
  }
  const report = (error: unknown): void =>
    options.log.error(
      { err: error, request_id: exchange.requestId },
      'could not write the result of a request to the store',
    )
  const handled = await runWrite(options.access, write, (id) => handleWrite(route, options, ready, id), report)
  exchange.error = handled.error
  return handled.reply
}

async function handleWrite(
  route: Route,
  options: DispatchOptions,
  ready: Ready,
  operationId: string,
): Promise<HandlerOutcome> {
  const audited: { target: string; detail: string; containerUuid?: string } = {
    target: targetOf(route, ready.request),
    detail: '',
  }
  const audit: AnyContext['audit'] = ({ target, ...entry }) =>
    void Object.assign(audited, entry, target ? { target } : {})
  try {
    await awaitHosts(route, options, ready)
    // The guest is looked up only now. Repeated requests were answered before, even if the guest was deleted since.
    const subject = await subjectOf(route, options, ready)
    Object.assign(audited, auditedOf(subject))
    const context = new HandlerContext(ready, options.log, {
      operationId,
      subject,
      audit,
      recheck: () => recheck(route, options, ready),
    })
    const answer = await route.handle(context)
    return { reply: answerReply(answer, ready.ctx.req), ...audited, unsettled: answer.unsettled ?? false }
  } catch (error) {
    const explained = explainMissing(error, ready.request, ready.ctx.querystring)
    return failedHandling(toldTo(ready.caller, explained), audited, ready.ctx.state.exchange.requestId)
  }
}

/**
 * If the route calls agents, waits for hosts that are expected to connect after the start of the gateway. If the path
 * names a guest, waits only for the guest's host.
 */
async function awaitHosts({ errors, bound }: Route, { fleet }: DispatchOptions, { request }: Ready): Promise<void> {
  const guestRef = bound === 'guest' ? String(request.params['id']) : undefined
  if (errors?.some((code) => ofAgents.includes(code))) await fleet.expectedConnections(guestRef)
}

/** Finds the guest or task of a request. Returns a promise only if it must ask hosts or the store. */
function subjectOf(route: Route, { fleet }: DispatchOptions, { caller, request }: Ready) {
  return getSubject(fleet, route, { caller, params: request.params })
}

/** Target and container that the audit entry of a request names. */
function auditedOf({ guest, task }: BoundSubject): { target?: string; containerUuid?: string } {
  if (guest) return { target: guest.guest.name, containerUuid: guest.guest.uuid }
  return task ? { containerUuid: guestUuidOf(task.operation) } : {}
}

interface Handling {
  readonly operationId: string
  readonly subject: BoundSubject
  readonly audit: AnyContext['audit']
  readonly recheck: AnyContext['recheck']
}

/** Checks caller and rights again while a request runs. The check does not count towards the limit of requests. */
async function recheck(route: Route, { access, policies }: DispatchOptions, { ctx }: Ready): Promise<Principal> {
  if (!policies.judge(originOf(ctx.req)).allowed) throw deniedByPolicy()
  const { exchange } = ctx.state
  const caller = await access.authenticator.recheck(credentialsOf(ctx.req, exchange), exchange.address)
  refuseSubUser(route, caller)
  access.authorize(caller, scopeFor(route, caller))
  refuseBound(route, caller)
  return caller
}

/** Data for one handler. Creating an instance of a class is ten times as fast as a literal with a getter. */
class HandlerContext implements AnyContext {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
  readonly caller: Principal
  readonly requestId: string
  readonly headers: IncomingMessage['headers']
  readonly peer: string
  readonly address: string
  readonly secure: boolean
  readonly operationId: string
  readonly upload: IncomingMessage
  readonly guest: GuestView | undefined
  readonly task: OperationView | undefined
  readonly audit: AnyContext['audit']
  readonly recheck: AnyContext['recheck']
  readonly #log: Logger

  constructor({ ctx, caller, request }: Ready, log: Logger, { operationId, subject, audit, recheck }: Handling) {
    this.operationId = operationId
    this.upload = ctx.req
    this.recheck = recheck
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
    this.address = ctx.state.exchange.address
    this.secure = ctx.state.exchange.secure
    this.#log = log
  }

  /** The logger is created only when it is used, because most requests do not log anything. */
  get log(): Logger {
    return this.#log.child({ request_id: this.requestId })
  }
}

/** Target for the audit entry: the name in the path or body, or else the path of the route. */
function targetOf({ path }: Pick<Route, 'path'>, { params, body }: ValidRequest): string {
  const named = Object.values(params).join('/') || body['name']
  const isName = (typeof named === 'string' && named.trim() !== '') || typeof named === 'number'
  return isName ? String(named).slice(0, 128) : path.slice(1)
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return Array.isArray(value) ? value.join(',') : value
}
