import { Type } from 'typebox'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import type { Brand } from '../../settings/brand.js'
import { loginCookies, placeOf, sessionOf } from './login-place.js'
import type { AccountDeps } from './own-account.js'

const common = {
  ...({ scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts', confirmed: true } as const),
}

const RecoveryCodesSchema = Type.Object(
  {
    recovery_codes: Type.Array(
      Type.String({
        description:
          'Recovery codes. Each can be sent once instead of a code of the authenticator app. They are returned only in this answer.',
      }),
    ),
  },
  { title: 'RecoveryCodes' },
)

interface TwoFactorDeps extends Pick<AccountDeps, 'accounts'> {
  /** The provider, whose name authenticator apps show. */
  readonly brand: Pick<Brand, 'name'>
}

export function twoFactorRoutes({ accounts: { sessions, own }, brand }: TwoFactorDeps): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: '/account/totp',
      name: 'beginTwoFactor',
      audit: 'account.totp_begin',
      summary:
        'Starts the setup of a second factor. It takes effect when `POST /account/totp/confirm` receives the first code within 10 minutes',
      data: Type.Object(
        {
          secret: Type.String({ description: 'Secret in base32, to be typed into an authenticator app.' }),
          uri: Type.String({ description: '`otpauth://` URL with the secret, to be shown as a QR code.' }),
        },
        { title: 'NewTwoFactor' },
      ),
      errors: ['invalid_state', 'not_found'],
      handle: async (context) => {
        const { account } = await sessionOf(sessions, context)
        context.audit({ target: account.username })
        return { data: await own.beginTwoFactor(account, brand.name) }
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/account/totp/confirm',
      name: 'confirmTwoFactor',
      audit: 'account.totp_on',
      cookies: true,
      summary:
        'Completes the setup of the second factor with its first code, and ends all other sessions of the caller',
      body: Type.Object({
        code: Type.String({ ...trimmed, minLength: 1, maxLength: 16, description: 'Code of the authenticator app.' }),
      }),
      example: { code: '123456' },
      data: RecoveryCodesSchema,
      errors: ['invalid_state', 'not_found'],
      handle: async (context) => {
        const session = await sessionOf(sessions, context)
        context.audit({ target: session.account.username })
        const done = await own.confirmTwoFactor(session, context.body.code, placeOf(context))
        const data = { recovery_codes: done.codes }
        return {
          message: 'two-factor authentication enabled',
          data,
          cookies: loginCookies(done.loggedIn, context),
        }
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/account/totp/recovery-codes',
      name: 'renewRecoveryCodes',
      audit: 'account.recovery_codes',
      summary: 'Replaces the caller’s recovery codes. All earlier recovery codes become invalid',
      data: RecoveryCodesSchema,
      errors: ['invalid_state', 'not_found'],
      handle: async (context) => {
        const session = await sessionOf(sessions, context)
        context.audit({ target: session.account.username })
        const codes = await own.renewRecoveryCodes(session)
        return {
          message: 'recovery codes replaced: the earlier codes are invalid',
          data: { recovery_codes: codes },
        }
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/account/totp',
      name: 'removeTwoFactor',
      audit: 'account.totp_off',
      cookies: true,
      summary: 'Removes the caller’s authenticator app and ends all other sessions of the caller. Passkeys stay',
      errors: ['invalid_state', 'not_found'],
      handle: async (context) => {
        const session = await sessionOf(sessions, context)
        context.audit({ target: session.account.username })
        const begun = await own.removeTwoFactor(session, placeOf(context))
        return { message: 'second factor removed', cookies: loginCookies(begun, context) }
      },
    }),
  ]
}
