import { Type } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import type { Authorize } from '../../access/contract.js'
import { isBound, type Principal } from '../../access/principal.js'
import { refuseBound } from '../../http/bound.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { refuseInView, refuseKeys } from '../../http/session-rules.js'
import { refuseSubUser, scopeFor } from '../../http/sub-user.js'

const CallerSchema = Type.Object(
  {
    name: Type.String({ description: 'Name in the audit log and in tasks.' }),
    kind: oneOf(['key', 'session']),
    scopes: Type.Array(Type.String()),
    bound: Type.Boolean({ description: '`true`: the caller is bound to some containers.' }),
    operations: Type.Array(Type.String(), {
      description:
        'Names of the requests that the caller may send: each `operationId` in the OpenAPI document, except those that need no credentials.',
    }),
  },
  { title: 'Caller' },
)

export interface CallerDeps {
  readonly authorize: Authorize
  /** Returns all routes of the API. */
  readonly routes: () => readonly Route[]
}

/** Clients learn from this route which actions the gateway would refuse, and can hide these actions from users. */
export function callerRoute({ authorize, routes }: CallerDeps): Route {
  const mayUse = (caller: Principal, one: Route): boolean => {
    try {
      refuseSubUser(one, caller)
      authorize(caller, scopeFor(one, caller))
      refuseBound(one, caller)
      refuseKeys(one, caller)
      refuseInView(one, caller)
      return true
    } catch (error) {
      if (error instanceof BerthError) return false
      throw error
    }
  }
  return route({
    method: 'GET',
    path: '/caller',
    name: 'getCaller',
    scope: 'any',
    bound: 'own',
    subUser: 'allowed',
    tag: 'API keys',
    summary: 'Returns the caller of this request, its scopes and the requests that it may send',
    data: CallerSchema,
    handle: ({ caller }) => {
      const { user: name, scopes } = caller
      const kind: 'key' | 'session' = caller.kind === 'session' ? 'session' : 'key'
      const operations = routes().filter((one) => one.scope !== 'public' && mayUse(caller, one))
      const names = operations.map((one) => one.name)
      return { data: { name, kind, scopes: [...scopes], bound: isBound(caller), operations: names } }
    },
  })
}
