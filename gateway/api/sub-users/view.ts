import { Type } from 'typebox'
import { BerthError, conflict } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import { isUsable } from '../../accounts/account-record.js'
import type { Accounts } from '../../accounts/accounts.js'
import { cookieHeader, readCookie } from '../../accounts/cookies.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import type { SubUsers } from '../../sub-users/sub-users.js'
import { sessionCookie, sessionOf, withoutReturn } from '../accounts/login-place.js'
import { SubUserPathSchema } from './sub-user-schemas.js'

export interface ViewDeps {
  readonly accounts: Pick<Accounts, 'sessions'>
  readonly subUsers: Pick<SubUsers, 'get'>
}

/*
 * An administrator sees the panel as a sub-user, in a session of its own. Meanwhile the browser keeps the session of the
 * administrator in a second cookie, to which it returns.
 */

export function viewRoutes(deps: ViewDeps): Route[] {
  return [viewRoute(deps), returnRoute(deps)]
}

function viewRoute({ accounts: { sessions }, subUsers }: ViewDeps): Route {
  return route({
    method: 'POST',
    path: '/sub-users/{id}/view',
    name: 'viewAsSubUser',
    scope: '*',
    bound: 'refused',
    tag: 'Accounts',
    cookies: true,
    confirmed: true,
    audit: 'sub_user.view',
    summary:
      'Shows the panel as a sub-user: replaces the session of the caller by a session with the rights of the sub-user. It ends with `POST /session/return`, or with the session of the caller. The audit log names the caller for everything that happens in it. It cannot change the account of the sub-user',
    params: SubUserPathSchema,
    data: Type.Object({ username: Type.String({ description: 'User name of the sub-user.' }) }, { title: 'View' }),
    errors: ['not_found', 'invalid_state'],
    handle: async (context) => {
      const own = await sessionOf(sessions, context)
      const account = await subUsers.get(context.caller, context.params.id)
      const { id, username } = account
      context.audit({ target: username, detail: `id ${id}` })
      if (!isUsable(account, steadyClock.now()))
        throw conflict('invalid_state', 'the sub-user is disabled or has expired, so it cannot use the panel')
      const view = await sessions.beginView(own, account)
      return { message: 'view begun', data: { username }, cookies: viewCookies(context, view) }
    },
  })
}

type AnyContext = RequestContext<unknown, unknown, unknown>

function viewCookies(context: AnyContext, view: Parameters<typeof sessionCookie>[0]): string[] {
  const { headers, secure } = context
  const own = readCookie(headers, 'berth', secure) ?? ''
  const seconds = secondsUntil(view.record.expiresAtMs)
  return [
    cookieHeader('berth', view.token, { secure, seconds }),
    cookieHeader('berth-return', own, { secure, seconds }),
  ]
}

function secondsUntil(timeMs: number): number {
  return Math.ceil((timeMs - steadyClock.now()) / 1000)
}

/** The route needs no session, because the view can have ended before the administrator returns. */
function returnRoute({ accounts: { sessions } }: ViewDeps): Route {
  return route({
    method: 'POST',
    path: '/session/return',
    name: 'returnFromView',
    scope: 'public',
    bound: 'same',
    subUser: 'allowed',
    tag: 'Accounts',
    cookies: true,
    audit: false,
    summary: 'Ends the view of a sub-user: the browser has the session of the administrator again',
    data: Type.Object(
      { username: Type.String({ description: 'User name of the administrator.' }) },
      { title: 'Returned' },
    ),
    errors: ['unauthorized'],
    handle: async (context) => {
      const { headers, secure } = context
      const token = readCookie(headers, 'berth-return', secure) ?? ''
      const own = await sessions.find(token)
      if (own === undefined)
        throw new BerthError('unauthenticated', 'unauthorized', 'the session has ended: log in again')
      const view = await sessions.peek(readCookie(headers, 'berth', secure) ?? '')
      if (view?.viewer?.digest === own.digest) await sessions.endAll(view.account.id, [view.digest])
      const session = cookieHeader('berth', token, { secure, seconds: secondsUntil(own.record.expiresAtMs) })
      return { data: { username: own.account.username }, cookies: [session, ...withoutReturn(context)] }
    },
  })
}
