import { Type, type Static } from 'typebox'
import type { Accounts } from '../../accounts/accounts.js'
import { cookieHeader, readCookie } from '../../accounts/cookies.js'
import type { CodeRequest, LoggedIn } from '../../accounts/logins.js'
import { pendingMs } from '../../accounts/pending-logins.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { loginCookies, placeOf, withoutReturn } from './login-place.js'
import { GivenPassword, SecondFactorSchema, secondFactorOf } from './proof.js'

export const kinds = ['admin', 'sub_user'] as const

export const WhoSchema = Type.Object({ username: Type.String(), kind: oneOf(kinds) }, { title: 'LoggedIn' })
export const StepSchema = Type.Object(
  {
    username: Type.Optional(Type.String()),
    kind: Type.Optional(oneOf(kinds)),
    otp: Type.Optional(
      Type.Boolean({
        description:
          '`true`: the login is not complete. Send a code to `POST /login/otp`, or a passkey to `POST /login/otp/passkey`, within 5 minutes.',
      }),
    ),
    authenticator_app: Type.Optional(
      Type.Boolean({ description: 'Only if `otp` is `true`: whether the account has an authenticator app.' }),
    ),
    passkey: Type.Optional(
      Type.Boolean({ description: 'Only if `otp` is `true`: whether the account has a passkey.' }),
    ),
  },
  { title: 'LoginStep' },
)

/** Properties of routes that need no login and may set cookies. */
export const open = {
  ...({ method: 'POST', scope: 'public', bound: 'same', subUser: 'allowed' } as const),
  ...({ tag: 'Accounts', cookies: true } as const),
}

export function loginRoutes(accounts: Accounts): Route[] {
  return [passwordRoute(accounts), codeRoute(accounts), logoutRoute(accounts)]
}

function passwordRoute({ logins }: Accounts): Route {
  return route({
    ...open,
    path: '/login',
    name: 'login',
    audit: false,
    summary: 'Logs in with user name and password. The answer sets a session cookie',
    body: Type.Object({
      username: Type.String({ ...trimmed, minLength: 1, maxLength: 64, description: 'User name of the account.' }),
      password: GivenPassword,
      keep: Type.Optional(
        Type.Boolean({
          description: '`true`: the session ends after 12 hours without a request. `false` (default): after 2 hours.',
        }),
      ),
    }),
    example: { username: 'admin', password: 'correct horse battery' },
    data: StepSchema,
    statuses: [200, 202],
    errors: ['login_failed'],
    handle: async (context) => {
      const { username, password, keep = false } = context.body
      return stepAnswer(await logins.login({ username, password, keep }, placeOf(context)), context)
    },
  })
}

/** Returns the answer to the first step of a login: a session, or a token to send with the code. */
export function stepAnswer(
  step: LoggedIn | CodeRequest,
  request: Pick<RequestContext<unknown, unknown, unknown>, 'headers' | 'secure'>,
): Answer<Static<typeof StepSchema>> {
  if (!('pendingToken' in step)) return { data: whoOf(step), cookies: loginCookies(step, request) }
  const about = { secure: request.secure, seconds: pendingMs / 1000 }
  const cookies = [cookieHeader('berth', step.pendingToken, about)]
  const data = { otp: true, authenticator_app: step.hasApp, passkey: step.hasPasskey }
  return { status: 202, message: 'a second factor is required', data, cookies }
}

function codeRoute({ logins }: Accounts): Route {
  return route({
    ...open,
    path: '/login/otp',
    name: 'loginWithCode',
    audit: false,
    summary:
      'Completes a login for which `POST /login` answered 202, with the code of the second factor or a recovery code',
    body: SecondFactorSchema,
    example: { code: '123456' },
    data: WhoSchema,
    errors: ['login_failed', 'login_expired'],
    handle: async (context) => {
      const pending = readCookie(context.headers, 'berth', context.secure) ?? ''
      const done = await logins.second(pending, secondFactorOf(context.body), placeOf(context))
      return { data: whoOf(done), cookies: loginCookies(done, context) }
    },
  })
}

function logoutRoute({ sessions }: Accounts): Route {
  return route({
    method: 'POST',
    path: '/logout',
    name: 'logout',
    subUser: 'allowed',
    scope: 'session',
    bound: 'same',
    tag: 'Accounts',
    cookies: true,
    audit: 'session.end',
    summary: 'Logs out: ends this session. In the view of a sub-user, also ends the session of the administrator',
    handle: async (context) => {
      const { caller, secure } = context
      const session = caller.kind === 'session' ? await sessions.findByDigest(caller.sessionDigest) : undefined
      for (const one of [session, session?.viewer]) if (one) await sessions.endAll(one.account.id, [one.digest])
      return {
        message: 'logged out',
        cookies: [cookieHeader('berth', '', { secure, seconds: 0 }), ...withoutReturn(context)],
      }
    },
  })
}

export function whoOf({ account }: LoggedIn): Static<typeof WhoSchema> {
  return { username: account.username, kind: account.kind }
}
