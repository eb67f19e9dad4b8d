import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Accounts } from '../../accounts/accounts.js'
import { sessionId, userOf, type ListedSession, type Session } from '../../accounts/sessions.js'
import { trimmed } from '../../http/normalize.js'
import { sessionIdPattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
import { loginCookies, placeOf, sessionOf } from './login-place.js'
import { roles } from '../../access/roles.js'
import { roleOf } from '../../accounts/account-record.js'
import { hasSecondFactor, recoveryOf } from '../../accounts/second-factors.js'
import { kinds } from './login.js'
import { GivenPassword, NewPassword, ProofSchema, proofOf } from './proof.js'

const SessionSchema = Type.Object(
  {
    username: Type.String(),
    kind: oneOf(kinds),
    role: Type.Optional(oneOf(roles, 'Role of the administrator. Omitted for sub-users.')),
    viewed_by: Type.Optional(
      Type.String({
        description:
          'User name of the administrator who sees the panel as this sub-user. Omitted if the user of the account has logged in.',
      }),
    ),
    scopes: Type.Array(Type.String()),
    csrf: Type.String({
      description: 'CSRF token. Send it as `X-Berth-CSRF` with every request except GET.',
    }),
    two_factor: Type.Boolean({
      description:
        '`true`: the account has an authenticator app or a passkey, so that each login with the password needs a second factor.',
    }),
    authenticator_app: Type.Boolean(),
    passkey: Type.Boolean({ description: '`true`: the account has a passkey.' }),
    two_factor_required: Type.Boolean({
      description: '`true`: the account must set up a second factor before it can do anything else.',
    }),
    recovery_codes_left: Type.Integer(),
    time_zone: Type.String({ description: 'IANA name of the time zone of all times in this API.', examples: ['UTC'] }),
    display_time_zone: Type.String({
      description: 'IANA name of the time zone in which the panel shows times. Empty: the time zone of the browser.',
    }),
    confirmed_at: timeSchema(
      'the user last confirmed the password or a 2FA code',
      'the user has not confirmed it in this session',
    ),
    expires_at: timeSchema('the session expires'),
  },
  { title: 'Session' },
)
const RowSchema = Type.Object(
  {
    id: Type.String(),
    current: Type.Boolean({ description: '`true`: this is the session that sent the request.' }),
    address: Type.String({ description: 'IP address from which the session was opened.' }),
    user_agent: Type.String(),
    created_at: TimeSchema,
    last_seen: timeSchema('the session was last used'),
    expires_at: timeSchema('the session expires'),
  },
  { title: 'OpenSession' },
)

export interface AccountDeps {
  readonly accounts: Accounts
  readonly time: TimeFormat
}

const own = { scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts' } as const

export function ownAccountRoutes(deps: AccountDeps): Route[] {
  return [sessionRoute(deps), passwordRoute(deps), confirmRoute(deps), timeZoneRoute(deps), ...sessionRoutes(deps)]
}

function sessionRoute({ accounts: { sessions, csrf, settings }, time }: AccountDeps): Route {
  return route({
    ...own,
    method: 'GET',
    path: '/session',
    name: 'getSession',
    summary: 'Returns the account of this session and its CSRF token',
    data: SessionSchema,
    errors: ['not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      const about = { csrf: csrf.of(session.digest), scopes: [...context.caller.scopes] }
      return {
        data: {
          ...about,
          ...sessionData(session, time),
          two_factor_required: settings.mustEnrol(userOf(session)),
        },
      }
    },
  })
}

function sessionData({ record, account, viewer }: Session, time: TimeFormat) {
  return {
    username: account.username,
    kind: account.kind,
    ...(viewer && { viewed_by: viewer.account.username }),
    ...(account.kind === 'admin' && { role: roleOf(account) }),
    two_factor: hasSecondFactor(account),
    authenticator_app: account.totp !== undefined,
    passkey: (account.passkeys ?? []).length > 0,
    recovery_codes_left: recoveryOf(account).length,
    time_zone: time.zone,
    display_time_zone: account.timeZone ?? '',
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
    summary: 'Changes the caller’s own password and ends all other sessions of the caller',
    body: Type.Object({
      current_password: { ...GivenPassword, description: 'Present password of the caller.' },
      password: NewPassword,
    }),
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
    summary:
      'Confirms the caller’s identity with the password or a 2FA code. Sensitive changes require this within the last 10 minutes. `POST /account/confirm/passkey` does the same with a passkey',
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

function timeZoneRoute({ accounts: { sessions, own: account } }: AccountDeps): Route {
  return route({
    ...own,
    method: 'PUT',
    path: '/account/time-zone',
    name: 'updateTimeZone',
    audit: 'account.time_zone',
    summary: 'Sets the time zone in which the panel shows times to the caller. Times of the API stay in `time_zone`',
    body: Type.Object(
      {
        time_zone: Type.String({
          ...trimmed,
          maxLength: 64,
          description: 'IANA name of the time zone. Empty: the time zone of the browser.',
        }),
      },
      { title: 'TimeZone' },
    ),
    example: { time_zone: 'Europe/Berlin' },
    errors: ['not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      const { time_zone: zone } = context.body
      context.audit({ target: session.account.username, detail: zone || 'browser' })
      await account.setTimeZone(session, zone)
      return { message: 'time zone updated' }
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
      summary: 'Lists the caller’s own sessions, newest first',
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
      summary: 'Ends one of the caller’s own sessions',
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
      summary: 'Ends all sessions of the caller except this one',
      data: Type.Object({ ended: Type.Integer() }),
      errors: ['not_found'],
      handle: async (context) => {
        const { account, digest } = await sessionOf(sessions, context)
        const ended = await sessions.endOthers(account, digest)
        context.audit({ target: account.username, detail: `${ended} other sessions` })
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
