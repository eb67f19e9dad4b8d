import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Accounts } from '../../accounts/accounts.js'
import { sessionId, type ListedSession, type Session } from '../../accounts/sessions.js'
import { sessionIdPattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { loginCookies, placeOf, sessionOf } from './login-place.js'
import { kinds } from './login.js'
import { GivenPassword, NewPassword, ProofSchema, proofOf } from './proof.js'

const SessionSchema = Type.Object(
  {
    username: Type.String(),
    kind: oneOf(kinds),
    scopes: Type.Array(Type.String()),
    csrf: Type.String({ description: 'To be sent as `X-Berth-CSRF` with every request but GET.' }),
    two_factor: Type.Boolean({ description: 'Whether logging in takes a code.' }),
    two_factor_required: Type.Boolean({ description: 'It must be set up before anything else is allowed.' }),
    recovery_codes_left: Type.Integer(),
    confirmed_at: TimeSchema,
    expires_at: TimeSchema,
  },
  { title: 'Session' },
)
const RowSchema = Type.Object(
  {
    id: Type.String(),
    current: Type.Boolean({ description: 'The one that asks.' }),
    address: Type.String({ description: 'Where the log-in came from.' }),
    user_agent: Type.String(),
    created_at: TimeSchema,
    last_seen: TimeSchema,
    expires_at: TimeSchema,
  },
  { title: 'OpenSession' },
)

export interface AccountDeps {
  readonly accounts: Accounts
  readonly time: TimeFormat
}

const own = { scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts' } as const

/** What people see and change of their own account. */
export function ownAccountRoutes(deps: AccountDeps): Route[] {
  return [sessionRoute(deps), passwordRoute(deps), confirmRoute(deps), ...sessionRoutes(deps)]
}

function sessionRoute({ accounts: { sessions, csrf, settings }, time }: AccountDeps): Route {
  return route({
    ...own,
    method: 'GET',
    path: '/session',
    name: 'getSession',
    summary: 'Who is logged in, and what changes must be sent with',
    data: SessionSchema,
    errors: ['not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      const about = { csrf: csrf.of(session.digest), scopes: [...context.caller.scopes] }
      return {
        data: {
          ...about,
          ...sessionData(session, time),
          two_factor_required: settings.mustEnrol(session.account),
        },
      }
    },
  })
}

function sessionData({ record, account }: Session, time: TimeFormat) {
  return {
    username: account.username,
    kind: account.kind,
    two_factor: account.totp !== undefined,
    recovery_codes_left: account.totp?.recovery.length ?? 0,
    confirmed_at: time.format(record.confirmedAtMs),
    expires_at: time.format(record.expiresAtMs),
  }
}

function passwordRoute({ accounts: { sessions, own: account } }: AccountDeps): Route {
  return route({
    ...own,
    method: 'POST',
    path: '/account/password',
    name: 'changePassword',
    audit: 'account.password',
    cookies: true,
    summary: 'Changes the password; all other sessions end',
    body: Type.Object({ current_password: GivenPassword, password: NewPassword }),
    example: { current_password: 'correct horse battery', password: 'staple paper clip 7' },
    errors: ['confirmation_failed', 'not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      context.audit({ target: session.account.username })
      const { current_password: current, password: next } = context.body
      const begun = await account.changePassword(session, { current, next }, placeOf(context))
      return { message: 'password changed', cookies: loginCookies(begun, context) }
    },
  })
}

function confirmRoute({ accounts: { sessions, own: account } }: AccountDeps): Route {
  return route({
    ...own,
    method: 'POST',
    path: '/account/confirm',
    name: 'confirmSession',
    audit: 'session.confirm',
    summary: 'Gives password or code again: what opens doors for others wants that within ten minutes',
    body: ProofSchema,
    example: { password: 'correct horse battery' },
    errors: ['confirmation_failed', 'not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      context.audit({ target: session.account.username })
      await account.confirm(session, proofOf(context.body), placeOf(context))
      return { message: 'confirmed' }
    },
  })
}

function sessionRoutes({ accounts: { sessions }, time }: AccountDeps): Route[] {
  return [
    route({
      ...own,
      method: 'GET',
      path: '/account/sessions',
      name: 'listSessions',
      summary: 'One’s own sessions, newest first',
      data: Type.Array(RowSchema),
      errors: ['not_found'],
      handle: async (context) => {
        const { account, digest } = await sessionOf(sessions, context)
        const rows = (await sessions.list(account)).map((one) => sessionRow(one, sessionId(digest), time))
        return { data: rows }
      },
    }),
    route({
      ...own,
      method: 'DELETE',
      path: '/account/sessions/{id}',
      name: 'endSession',
      audit: 'session.end',
      summary: 'Ends one of one’s own sessions',
      params: Type.Object({ id: Type.String({ pattern: sessionIdPattern }) }),
      handle: async (context) => {
        const { account } = await sessionOf(sessions, context)
        await sessions.end(account, context.params.id)
        context.audit({ target: account.username, detail: `session ${context.params.id.slice(0, 8)}` })
        return { message: 'session ended' }
      },
    }),
    route({
      ...own,
      method: 'DELETE',
      path: '/account/sessions',
      name: 'endOtherSessions',
      audit: 'session.end',
      summary: 'Ends all of one’s own sessions but this one',
      data: Type.Object({ ended: Type.Integer() }),
      errors: ['not_found'],
      handle: async (context) => {
        const { account, digest } = await sessionOf(sessions, context)
        const ended = await sessions.endOthers(account, digest)
        context.audit({ target: account.username, detail: `${ended} others` })
        return { message: 'other sessions ended', data: { ended } }
      },
    }),
  ]
}

function sessionRow(
  { id, record, seenAtMs }: ListedSession,
  ownId: string,
  time: TimeFormat,
): Static<typeof RowSchema> {
  return {
    id,
    current: id === ownId,
    address: record.address,
    user_agent: record.userAgent,
    created_at: time.format(record.createdAtMs),
    last_seen: time.format(seenAtMs),
    expires_at: time.format(record.expiresAtMs),
  }
}
