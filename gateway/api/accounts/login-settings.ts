import { Type } from 'typebox'
import { twoFactorRules, type AccountSettings } from '../../accounts/account-settings.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'

const SettingsSchema = Type.Object(
  { require_2fa: oneOf(twoFactorRules, 'Kind of accounts that need a second factor.') },
  { title: 'LoginSettings' },
)

const common = {
  path: '/login-settings',
  scope: 'admin:access',
  bound: 'refused',
  tag: 'Settings',
  data: SettingsSchema,
} as const

export function loginSettingRoutes({ requireTwoFactor }: AccountSettings): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getLoginSettings',
      summary: 'Returns the login settings',
      handle: () => ({ data: { require_2fa: requireTwoFactor.current } }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateLoginSettings',
      confirmed: true,
      audit: 'login_settings.update',
      summary:
        'Sets which accounts need a second factor. An account that needs one can do nothing else until it has set it up',
      body: SettingsSchema,
      example: { require_2fa: 'admins' },
      handle: async (context) => {
        const wanted = context.body.require_2fa
        context.audit({ detail: `require_2fa ${wanted}` })
        const rule = await requireTwoFactor.update(() => wanted)
        return { message: 'login settings updated', data: { require_2fa: rule } }
      },
    }),
  ]
}
