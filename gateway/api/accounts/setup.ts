import { Type } from 'typebox'
import { auditedBy } from '../../access/audited.js'
import type { AuditLog } from '../../access/contract.js'
import type { Accounts } from '../../accounts/accounts.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { loginCookies, placeOf } from './login-place.js'
import { open, whoOf, WhoSchema } from './login.js'
import { NewPassword } from './proof.js'

const TokenSchema = Type.String({
  ...trimmed,
  minLength: 1,
  maxLength: 128,
  description: 'Token of the setup link: the part after `#`.',
})
const exampleToken = 'Zc2bq0SgJ6wXkqsYw1z0mB3f1PpQh8v2tY7nLr5uEaM'

/** Routes for the links with which administrators set a password. */
export function setupRoutes(accounts: Accounts, log: AuditLog): Route[] {
  return [linkRoute(accounts), setupRoute(accounts, log)]
}

/** Checks a link before the user chooses a password. */
function linkRoute({ admins }: Accounts): Route {
  return route({
    ...open,
    path: '/setup/link',
    name: 'readSetupLink',
    audit: false,
    summary: 'Returns the account for which a setup link is valid. This does not use up the link',
    body: Type.Object({ token: TokenSchema }),
    example: { token: exampleToken },
    data: Type.Object(
      {
        username: Type.String({
          description:
            'User name of the account. Empty: the account does not exist yet, and its user name is chosen in `POST /setup`.',
        }),
      },
      { title: 'SetupLink' },
    ),
    errors: ['not_found'],
    handle: async ({ body }) => ({
      data: { username: (await admins.ownerOf(body.token))?.username ?? '' },
    }),
  })
}

/** Only a valid link gets an audit entry. With entries for invalid links, anybody could flood the audit log. */
function setupRoute({ admins, logins }: Accounts, log: AuditLog): Route {
  return route({
    ...open,
    path: '/setup',
    name: 'setUp',
    audit: false,
    summary: 'Uses a setup link: creates the first administrator, or sets the password of the account of the link',
    body: Type.Object({
      token: TokenSchema,
      username: Type.Optional(
        Type.String({
          ...trimmed,
          maxLength: 64,
          description: 'User name of the first administrator. Ignored if the link is for an existing account.',
        }),
      ),
      password: NewPassword,
    }),
    example: { token: exampleToken, username: 'admin', password: 'correct horse' },
    data: WhoSchema,
    statuses: [201],
    errors: ['not_found', 'name_conflict'],
    handle: async (context) => {
      const { token, username = '', password } = context.body
      await admins.ownerOf(token)
      const admin = await auditedBy(log, { ...context, action: 'account.setup', target: username }, async () => {
        const made = await admins.redeem(token, { username, password })
        return { value: made, target: made.username, detail: `administrator ${made.id}` }
      })
      const done = await logins.begin(admin, 'setup_link', placeOf(context))
      return { status: 201, data: whoOf(done), cookies: loginCookies(done, context) }
    },
  })
}
