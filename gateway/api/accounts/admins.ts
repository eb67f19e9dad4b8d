import { Type, type Static } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { roleOf, type AdminAccount } from '../../accounts/account-record.js'
import { hasSecondFactor } from '../../accounts/second-factors.js'
import type { LastLogin } from '../../accounts/login-log.js'
import { isUnbounded, type Principal } from '../../access/principal.js'
import { checkMayGive, roles, type Role } from '../../access/roles.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { restricts, trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
import type { PublicUrl } from '../../settings/public-url.js'
import type { AccountDeps } from './own-account.js'
import { NewPassword } from './proof.js'

const roleText =
  '`full`: all rights. `operator`: everything except API keys, administrators and the settings of the installation. `support`: reads everything that an operator reads, starts and stops containers, changes their passwords and networks, opens their consoles, and makes snapshots and backups. `read_only`: changes nothing and opens no consoles.'

const AdminSchema = Type.Object(
  {
    id: Type.Integer(),
    username: Type.String(),
    role: oneOf(roles, roleText),
    disabled: Type.Boolean(),
    two_factor: Type.Boolean(),
    invited: Type.Boolean({
      description: '`true`: the setup link of the administrator is valid and was not used yet.',
    }),
    created_at: TimeSchema,
    last_login: timeSchema('the administrator last logged in', 'it has never logged in'),
    last_login_ip: Type.String(),
  },
  { title: 'Admin' },
)
const CreatedSchema = Type.Object(
  {
    ...AdminSchema.properties,
    setup_link: Type.Optional(
      Type.String({
        description:
          'Link with which the administrator sets a password. It contains `setup_token`. Empty: the public URL of the panel is not known, see `/public-url`.',
      }),
    ),
    setup_token: Type.Optional(
      Type.String({
        description:
          'Token for the setup link `{base}/setup#TOKEN`, where `{base}` is the URL of the panel. The token is valid once, for 24 hours, and is returned only in this answer.',
      }),
    ),
  },
  { title: 'CreatedAdmin' },
)

const listedBy = ['id', 'username', 'created_at', 'last_login'] as const
const PathSchema = Type.Object({ id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) })
const common = { scope: '*', bound: 'refused', tag: 'Accounts' } as const

interface AdminDeps extends AccountDeps {
  readonly publicUrl: PublicUrl
}

/** Routes for administrators. Only callers with all rights may use them, so that no role can give itself more rights. */
export function adminRoutes(deps: AdminDeps): Route[] {
  return [listRoute(deps), createRoute(deps), updateRoute(deps), deleteRoute(deps)]
}

function listRoute({ accounts: { admins, loginLog }, time }: AccountDeps): Route {
  return route({
    ...common,
    method: 'GET',
    path: '/admins',
    name: 'listAdmins',
    sortable: listedBy,
    query: listQuery({ username: Type.String({ maxLength: 64 }), disabled: Type.Boolean(), role: oneOf(roles) }),
    summary: 'Lists the administrators, in the order of their creation',
    data: Type.Array(AdminSchema),
    handle: async ({ query }) => {
      const all = await admins.list()
      const last = await loginLog.lastLogins(all.map(({ id }) => id))
      const rows = all.map((admin) => adminRow(admin, last.get(admin.id), time))
      return listAnswer(rows, query, { sortable: listedBy, filters: ['username', 'disabled', 'role'] })
    },
  })
}

function createRoute({ accounts: { admins }, time, publicUrl }: AdminDeps): Route {
  return route({
    ...common,
    method: 'POST',
    path: '/admins',
    name: 'createAdmin',
    confirmed: true,
    audit: 'admin.create',
    summary: 'Creates an administrator with a password, or with a link for setting one',
    body: Type.Object({
      username: Type.String({ ...trimmed, minLength: 1, maxLength: 64, description: 'User name for the login.' }),
      password: Type.Optional(NewPassword),
      role: Type.Optional(oneOf(roles, `Default: \`full\`. ${roleText}`)),
    }),
    example: { username: 'ada', password: 'correct horse battery', role: 'operator' },
    data: CreatedSchema,
    statuses: [201],
    errors: ['name_conflict'],
    handle: async (context) => {
      const { username, password, role = 'full' } = context.body
      refuseBounded(context.caller, role)
      context.audit({ target: username, detail: `role ${role}` })
      if (password !== undefined)
        return { status: 201, data: adminRow(await admins.create(username, password, role), undefined, time) }
      const { admin, token } = await admins.invite(username, role)
      const setup_link = publicUrl.link(`/setup#${token}`)
      const row = adminRow(admin, undefined, time)
      return { status: 201, data: { ...row, setup_token: token, setup_link } }
    },
  })
}

function updateRoute({ accounts: { admins, loginLog }, time }: AccountDeps): Route {
  return route({
    ...common,
    method: 'PATCH',
    path: '/admins/{id}',
    name: 'updateAdmin',
    confirmed: true,
    audit: 'admin.update',
    summary:
      'Disables or enables an administrator, or changes the role. A change ends all of the administrator’s sessions',
    params: PathSchema,
    body: Type.Object({
      disabled: Type.Optional(
        Type.Boolean({
          ...restricts,
          description: '`true`: the administrator cannot log in. `false`: can log in again.',
        }),
      ),
      role: Type.Optional(oneOf(roles, roleText)),
    }),
    example: { disabled: true },
    data: AdminSchema,
    errors: ['invalid_state'],
    handle: async (context) => {
      const { disabled, role } = context.body
      refuseBounded(context.caller, role)
      const { id } = context.params
      const admin = await admins.update(id, { disabled, role })
      const given = role === undefined ? '' : `, role ${role}`
      context.audit({
        target: admin.username,
        detail: `id ${id}, ${admin.disabled ? 'disabled' : 'enabled'}${given}`,
      })
      const last = await loginLog.lastLogins([id])
      return { data: adminRow(admin, last.get(id), time) }
    },
  })
}

function deleteRoute({ accounts: { admins } }: AccountDeps): Route {
  return route({
    ...common,
    method: 'DELETE',
    path: '/admins/{id}',
    name: 'deleteAdmin',
    confirmed: true,
    audit: 'admin.delete',
    summary: 'Deletes an administrator and ends all of the administrator’s sessions',
    params: PathSchema,
    errors: ['invalid_state'],
    handle: async (context) => {
      refuseBounded(context.caller)
      const admin = await admins.remove(context.params.id)
      context.audit({ target: admin.username, detail: `id ${admin.id}` })
      return { message: 'administrator deleted' }
    },
  })
}

/**
 * Rejects callers with any limit, such as an expiry or allowed addresses, as new administrators would not have it.
 * @param role role that the request gives to an administrator
 */
function refuseBounded(caller: Principal, role?: Role): void {
  if (role !== undefined) checkMayGive(caller, role)
  if (!isUnbounded(caller))
    throw new BerthError(
      'forbidden',
      'insufficient_scope',
      'only administrators and API keys without any limits can manage administrators',
    )
}

function adminRow(admin: AdminAccount, last: LastLogin | undefined, time: TimeFormat): Static<typeof AdminSchema> {
  return {
    id: admin.id,
    username: admin.username,
    role: roleOf(admin),
    disabled: admin.disabled,
    two_factor: hasSecondFactor(admin),
    invited: admin.link !== undefined && admin.link.expiresAtMs > Date.now(),
    created_at: time.format(admin.createdAtMs),
    last_login: time.format(last?.atMs ?? 0),
    last_login_ip: last?.address ?? '',
  }
}
