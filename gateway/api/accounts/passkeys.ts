import { Type, type Static } from 'typebox'
import type { PasskeyRecord } from '../../accounts/account-record.js'
import { passkeyId } from '../../accounts/passkeys.js'
import { relyingPartyOf } from '../../accounts/relying-party.js'
import type { TimeFormat } from '../../../shared/time.js'
import { sessionIdPattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import type { Brand } from '../../settings/brand.js'
import type { PublicUrl } from '../../settings/public-url.js'
import { loginCookies, placeOf, sessionOf } from './login-place.js'
import type { AccountDeps } from './own-account.js'
import {
  exampleNewCredential,
  NewCredentialSchema,
  PasskeyNameSchema,
  PasskeyOptionsSchema,
  PasskeySchema,
  registrationOf,
  type PasskeyOptionsRow,
} from './passkey-schemas.js'

export interface PasskeyDeps extends AccountDeps {
  readonly brand: Pick<Brand, 'name'>
  readonly publicUrl: Pick<PublicUrl, 'base'>
}

const own = { scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts' } as const
const PathSchema = Type.Object({ id: Type.String({ pattern: sessionIdPattern }) })

export function passkeyRoutes(deps: PasskeyDeps): Route[] {
  return [listRoute(deps), beginRoute(deps), addRoute(deps), renameRoute(deps), removeRoute(deps)]
}

function listRoute({ accounts: { sessions }, time }: PasskeyDeps): Route {
  return route({
    ...own,
    method: 'GET',
    path: '/account/passkeys',
    name: 'listPasskeys',
    summary: 'Lists the caller’s passkeys in the order of their creation',
    data: Type.Array(PasskeySchema),
    errors: ['not_found'],
    handle: async (context) => {
      const { account } = await sessionOf(sessions, context)
      return { data: (account.passkeys ?? []).map((passkey) => passkeyRow(passkey, time)) }
    },
  })
}

function beginRoute({ accounts: { sessions, ownPasskeys }, brand, publicUrl }: PasskeyDeps): Route {
  return route({
    ...own,
    method: 'POST',
    path: '/account/passkeys/begin',
    name: 'beginPasskey',
    audit: 'account.passkey_begin',
    confirmed: true,
    summary:
      'Begins to add a passkey: returns the options that the browser needs. Complete it with `POST /account/passkeys`',
    data: PasskeyOptionsSchema,
    errors: ['passkeys_unavailable', 'passkey_limit_reached', 'not_found'],
    handle: async (context) => {
      const { account } = await sessionOf(sessions, context)
      context.audit({ target: account.username })
      const party = relyingPartyOf(publicUrl.base.url, context)
      return { data: (await ownPasskeys.begin(account, party, brand.name)) as PasskeyOptionsRow }
    },
  })
}

function addRoute({ accounts: { sessions, ownPasskeys }, publicUrl, time }: PasskeyDeps): Route {
  return route({
    ...own,
    method: 'POST',
    path: '/account/passkeys',
    name: 'addPasskey',
    audit: 'account.passkey_add',
    confirmed: true,
    cookies: true,
    summary:
      'Adds a passkey to the caller’s account, and ends all other sessions of the caller. From then on, logins with the password need a second factor',
    body: Type.Object({ name: PasskeyNameSchema, credential: NewCredentialSchema }, { title: 'NewPasskey' }),
    example: { name: 'Laptop', credential: exampleNewCredential },
    data: Type.Object(
      {
        passkey: PasskeySchema,
        recovery_codes: Type.Array(
          Type.String({ description: 'Recovery codes, if this is the first second factor of the account.' }),
        ),
      },
      { title: 'AddedPasskey' },
    ),
    statuses: [201],
    errors: ['passkeys_unavailable', 'passkey_limit_reached', 'name_conflict', 'not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      const { name, credential } = context.body
      context.audit({ target: session.account.username, detail: name })
      const party = relyingPartyOf(publicUrl.base.url, context)
      const given = { name, response: registrationOf(credential), party }
      const { passkey, codes, loggedIn } = await ownPasskeys.add(session, given, placeOf(context))
      const data = { passkey: passkeyRow(passkey, time), recovery_codes: [...codes] }
      return { status: 201, message: 'passkey added', data, cookies: loginCookies(loggedIn, context) }
    },
  })
}

function renameRoute({ accounts: { sessions, ownPasskeys } }: PasskeyDeps): Route {
  return route({
    ...own,
    method: 'PATCH',
    path: '/account/passkeys/{id}',
    name: 'updatePasskey',
    audit: 'account.passkey_rename',
    summary: 'Renames a passkey of the caller',
    params: PathSchema,
    body: Type.Object({ name: PasskeyNameSchema }, { title: 'PasskeyName' }),
    example: { name: 'Laptop' },
    errors: ['name_conflict', 'not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      const { name } = context.body
      context.audit({ target: session.account.username, detail: name })
      await ownPasskeys.rename(session, context.params.id, name)
      return { message: 'passkey renamed' }
    },
  })
}

function removeRoute({ accounts: { sessions, ownPasskeys } }: PasskeyDeps): Route {
  return route({
    ...own,
    method: 'DELETE',
    path: '/account/passkeys/{id}',
    name: 'removePasskey',
    audit: 'account.passkey_remove',
    confirmed: true,
    cookies: true,
    summary: 'Removes a passkey of the caller and ends all other sessions of the caller',
    params: PathSchema,
    errors: ['not_found'],
    handle: async (context) => {
      const session = await sessionOf(sessions, context)
      const { id } = context.params
      const name = session.account.passkeys?.find((one) => passkeyId(one) === id)?.name ?? ''
      context.audit({ target: session.account.username, detail: name })
      const begun = await ownPasskeys.remove(session, id, placeOf(context))
      return { message: 'passkey removed', cookies: loginCookies(begun, context) }
    },
  })
}

function passkeyRow(passkey: PasskeyRecord, time: TimeFormat): Static<typeof PasskeySchema> {
  const { name, createdAtMs, usedAtMs } = passkey
  return {
    id: passkeyId(passkey),
    name,
    created_at: time.format(createdAtMs),
    last_used: usedAtMs === 0 ? '' : time.format(usedAtMs),
  }
}
