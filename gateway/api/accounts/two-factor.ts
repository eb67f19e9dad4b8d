import { Type } from 'typebox'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { loginCookies, placeOf, sessionOf } from './login-place.js'
import type { AccountDeps } from './own-account.js'

const common = {
  ...({ scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts', confirmed: true } as const),
}

const RecoveryCodesSchema = Type.Object(
  {
    recovery_codes: Type.Array(
      Type.String({ description: 'Each instead of a code, once. Not shown again.' }),
    ),
  },
  { title: 'RecoveryCodes' },
)

/** One's own second factor. */
export function twoFactorRoutes({ accounts: { sessions, own } }: Pick<AccountDeps, 'accounts'>): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: '/account/totp',
      name: 'beginTwoFactor',
      audit: 'account.totp_begin',
      summary: 'Begins to set up a second factor; its first code completes it within ten minutes',
      data: Type.Object(
        {
          secret: Type.String({ description: 'In base32, for who types it.' }),
          uri: Type.String({ description: '`otpauth://`, for a QR code.' }),
        },
        { title: 'NewTwoFactor' },
      ),
      errors: ['invalid_state', 'not_found'],
      handle: async (context) => {
        const { account } = await sessionOf(sessions, context)
        context.audit({ target: account.username })
        return { data: await own.beginTwoFactor(account) }
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/account/totp/confirm',
      name: 'confirmTwoFactor',
      audit: 'account.totp_on',
      cookies: true,
      summary: 'Sets the second factor up with its first code; all other sessions end',
      body: Type.Object({ code: Type.String({ ...trimmed, minLength: 1, maxLength: 16 }) }),
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
      summary: 'Makes the recovery codes anew; all former ones are void',
      data: RecoveryCodesSchema,
      errors: ['invalid_state', 'not_found'],
      handle: async (context) => {
        const session = await sessionOf(sessions, context)
        context.audit({ target: session.account.username })
        const codes = await own.renewRecoveryCodes(session)
        return { message: 'former recovery codes are void', data: { recovery_codes: codes } }
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/account/totp',
      name: 'removeTwoFactor',
      audit: 'account.totp_off',
      cookies: true,
      summary: 'Removes the second factor; all other sessions end',
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
