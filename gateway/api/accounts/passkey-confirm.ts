import { Type } from 'typebox'
import { relyingPartyOf } from '../../accounts/relying-party.js'
import { route, type Route } from '../../http/route.js'
import { placeOf, sessionOf } from './login-place.js'
import {
  exampleSignature,
  PasskeyOptionsSchema,
  SignedChallengeSchema,
  signatureOf,
  type PasskeyOptionsRow,
} from './passkey-schemas.js'
import type { PasskeyDeps } from './passkeys.js'

type Deps = Pick<PasskeyDeps, 'accounts' | 'publicUrl'>

const own = { scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts', method: 'POST' } as const

/** Routes with which logged-in users confirm sensitive changes with a passkey. */
export function passkeyConfirmRoutes(deps: Deps): Route[] {
  return [beginRoute(deps), confirmRoute(deps)]
}

function beginRoute({ accounts: { sessions, passkeys }, publicUrl }: Deps): Route {
  return route({
    ...own,
    path: '/account/confirm/passkey/begin',
    name: 'beginPasskeyConfirmation',
    audit: false,
    summary:
      'Returns the options with which a browser signs a challenge for `POST /account/confirm/passkey`. The device must verify the user',
    data: PasskeyOptionsSchema,
    errors: ['invalid_state', 'passkeys_unavailable', 'not_found'],
    handle: async (context) => {
      const { account } = await sessionOf(sessions, context)
      const party = relyingPartyOf(publicUrl.base.url, context)
      return { data: (await passkeys.optionsToConfirm(account, party, context.address)) as PasskeyOptionsRow }
    },
  })
}

function confirmRoute({ accounts: { sessions, own: account }, publicUrl }: Deps): Route {
  return route({
    ...own,
    path: '/account/confirm/passkey',
    name: 'confirmSessionWithPasskey',
    audit: 'session.confirm',
    summary:
      'Confirms the caller’s identity with a passkey, like `POST /account/confirm`, after `POST /account/confirm/passkey/begin`',
    body: Type.Object({ credential: SignedChallengeSchema }, { title: 'PasskeyConfirmation' }),
    example: { credential: exampleSignature },
    errors: ['confirmation_failed', 'passkeys_unavailable', 'not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      context.audit({ target: session.account.username, detail: 'passkey' })
      const passkey = signatureOf(context.body.credential)
      const proof = { passkey, party: relyingPartyOf(publicUrl.base.url, context) }
      await account.confirm(session, proof, placeOf(context))
      return { message: 'confirmed' }
    },
  })
}
