import { Type } from 'typebox'
import { readCookie } from '../../accounts/cookies.js'
import { relyingPartyOf } from '../../accounts/relying-party.js'
import { route, type Route } from '../../http/route.js'
import { loginCookies, placeOf } from './login-place.js'
import { open, whoOf, WhoSchema } from './login.js'
import {
  exampleSignature,
  PasskeyOptionsSchema,
  SignedChallengeSchema,
  signatureOf,
  type PasskeyOptionsRow,
} from './passkey-schemas.js'
import type { PasskeyDeps } from './passkeys.js'

type Deps = Pick<PasskeyDeps, 'accounts' | 'publicUrl'>

export function passkeyLoginRoutes(deps: Deps): Route[] {
  return [beginRoute(deps), loginRoute(deps), secondRoutes(deps)].flat()
}

function beginRoute({ accounts: { passkeys }, publicUrl }: Deps): Route {
  return route({
    ...open,
    path: '/login/passkey/begin',
    name: 'beginPasskeyLogin',
    audit: false,
    summary:
      'Begins a login with a passkey: returns the challenge and the options that the browser needs. Complete it with `POST /login/passkey`',
    data: PasskeyOptionsSchema,
    errors: ['passkeys_unavailable'],
    handle: async (context) => {
      const party = relyingPartyOf(publicUrl.base.url, context)
      return { data: (await passkeys.optionsToLogIn(undefined, party, context.address)) as PasskeyOptionsRow }
    },
  })
}

function loginRoute({ accounts: { logins }, publicUrl }: Deps): Route {
  return route({
    ...open,
    path: '/login/passkey',
    name: 'loginWithPasskey',
    audit: false,
    summary:
      'Logs in with a passkey instead of the password. The device must have verified the user, for example with a fingerprint or a PIN. The answer sets a session cookie',
    body: Type.Object({
      credential: SignedChallengeSchema,
      keep: Type.Optional(
        Type.Boolean({
          description:
            '`true` and `false` mean the same as in `POST /login`: the session ends after a longer or shorter time without requests.',
        }),
      ),
    }),
    example: { credential: exampleSignature },
    data: WhoSchema,
    errors: ['login_failed', 'passkeys_unavailable'],
    handle: async (context) => {
      const { credential, keep = false } = context.body
      const given = { passkey: signatureOf(credential), party: relyingPartyOf(publicUrl.base.url, context) }
      const done = await logins.withPasskey(given, keep, placeOf(context))
      return { data: whoOf(done), cookies: loginCookies(done, context) }
    },
  })
}

function secondRoutes({ accounts: { logins }, publicUrl }: Deps): Route[] {
  return [
    route({
      ...open,
      path: '/login/otp/passkey/begin',
      name: 'beginSecondPasskey',
      audit: false,
      summary:
        'Returns the options with which a browser signs a challenge for `POST /login/otp/passkey`, after `POST /login` answered 202',
      data: PasskeyOptionsSchema,
      errors: ['login_expired', 'invalid_state', 'passkeys_unavailable'],
      handle: async (context) => {
        const pending = readCookie(context.headers, 'berth', context.secure) ?? ''
        const party = relyingPartyOf(publicUrl.base.url, context)
        return { data: (await logins.passkeyOptions(pending, party, context.address)) as PasskeyOptionsRow }
      },
    }),
    route({
      ...open,
      path: '/login/otp/passkey',
      name: 'loginWithSecondPasskey',
      audit: false,
      summary: 'Completes a login for which `POST /login` answered 202, with a passkey instead of a code',
      body: Type.Object({ credential: SignedChallengeSchema }, { title: 'SecondPasskey' }),
      example: { credential: exampleSignature },
      data: WhoSchema,
      errors: ['login_failed', 'login_expired', 'passkeys_unavailable'],
      handle: async (context) => {
        const pending = readCookie(context.headers, 'berth', context.secure) ?? ''
        const passkey = signatureOf(context.body.credential)
        const given = { passkey, party: relyingPartyOf(publicUrl.base.url, context) }
        const done = await logins.second(pending, given, placeOf(context))
        return { data: whoOf(done), cookies: loginCookies(done, context) }
      },
    }),
  ]
}
