import { Type, type Static } from 'typebox'
import type { Accounts } from '../../accounts/accounts.js'
import type { Account } from '../../accounts/account-record.js'
import type { LoginMethod } from '../../accounts/login-record.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import type { SubUsers } from '../../sub-users/sub-users.js'
import { placeOf } from '../accounts/login-place.js'
import { open, stepAnswer, StepSchema } from '../accounts/login.js'
import { GivenPassword } from '../accounts/proof.js'

const SubUserStepSchema = Type.Object(
  {
    ...StepSchema.properties,
    container_uuids: Type.Optional(
      Type.Array(Type.String(), { description: 'UUIDs of the containers of the sub-user.' }),
    ),
  },
  { title: 'SubUserLoginStep' },
)

export interface SubUserLoginDeps {
  readonly accounts: Accounts
  readonly subUsers: SubUsers
}

const login = {
  ...open,
  audit: false,
  data: SubUserStepSchema,
  statuses: [200, 202],
  errors: ['login_failed'],
} as const

/** Routes for logins of sub-users by name, or by the code of their link. All failures get the same answer. */
export function subUserLoginRoutes(deps: SubUserLoginDeps): Route[] {
  const { accounts, subUsers } = deps
  return [
    route({
      ...login,
      path: '/sub-user/login',
      name: 'loginAsSubUser',
      summary: 'Logs in a sub-user with name and password. The answer sets a session cookie',
      body: Type.Object({
        username: Type.String({ ...trimmed, minLength: 1, maxLength: 64, description: 'User name of the sub-user.' }),
        password: GivenPassword,
      }),
      example: { username: 'user-7f3k2m9qxz', password: 'h4WkUq2sVnB7yTzC9dRm' },
      handle: async (context) => {
        const { username, password } = context.body
        const account = await accounts.accounts.findByName(username)
        return logIn(deps, { account, username, password, method: 'password' }, context)
      },
    }),
    route({
      ...login,
      path: '/sub-user/access',
      name: 'loginWithAccessCode',
      summary:
        'Logs in a sub-user with the access code of the sub-user’s link and a password. The answer sets a session cookie',
      body: Type.Object({
        code: Type.String({
          ...trimmed,
          minLength: 1,
          maxLength: 64,
          description: 'Access code: the last part of the sub-user’s link.',
        }),
        password: GivenPassword,
      }),
      example: { code: 'pGmR3h8sQk2vX0y1ZaBcDe', password: 'h4WkUq2sVnB7yTzC9dRm' },
      handle: async (context) => {
        const { code, password } = context.body
        const account = await subUsers.findByCode(code)
        const username = account?.username ?? unknownCode
        return logIn(deps, { account, username, password, method: 'access_code' }, context)
      },
    }),
  ]
}

/** Failures with unknown codes are counted under this user name, which no account can have. */
const unknownCode = '*'

interface SubUserLogin {
  readonly account: Account | undefined
  readonly username: string
  readonly password: string
  readonly method: LoginMethod
}

async function logIn(
  { accounts }: SubUserLoginDeps,
  { account, ...given }: SubUserLogin,
  context: RequestContext<unknown, unknown, unknown>,
): Promise<Answer<Static<typeof SubUserStepSchema>>> {
  const known = account?.kind === 'sub_user' ? account : undefined
  const step = await accounts.logins.loginTo(known, { ...given, keep: false }, placeOf(context))
  const answer = stepAnswer(step, context)
  if ('pendingToken' in step) return answer
  return { ...answer, data: { ...answer.data, container_uuids: [...(known?.containerUuids ?? [])] } }
}
