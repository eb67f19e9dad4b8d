import { expect } from 'chai'
import { scopesOf } from '../../../gateway/access/roles.js'
import { coversScope, scopeCatalogue } from '../../../gateway/access/scopes.js'
import { defaultPermissions } from '../../../gateway/access/sub-user-bounds.js'
import { isForSessions, type Route } from '../../../gateway/http/route.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { SubUserCalls, type Caller } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/*
 * Every kind of caller calls every route. The call is accepted, or rejected with a status and a code. The expected
 * result follows from the properties of the route, and for sub-users from a list. New routes are tested automatically.
 */

const [inside, outside] = ['192.0.2.5', '203.0.113.9']
const past = '2001-01-01 00:00:00'

/** `in`: the caller is admitted. The status may be 404 for an object that does not exist, but not 401, 403 or 500. */
type ExpectedAnswer = 'in' | readonly [status: number, code: string]

interface Kind {
  readonly name: string
  /** Creates a caller of this kind. The caller gets every right for the route that its kind permits. */
  readonly of: (route: Route) => Promise<Caller>
  readonly expected: (route: Route) => ExpectedAnswer
}

const refused = [403, 'insufficient_scope'] as const
const unknown = [401, 'unauthorized'] as const

/** The routes that sub-users may call, with the required permission. `any` and `session`: no permission is required. */
const forSubUsers: Readonly<Record<string, string>> = {
  'GET /containers': 'container:read',
  'GET /containers/list': 'container:read',
  'POST /containers/list': 'container:read',
  'GET /containers/{id}': 'container:read',
  'GET /containers/{id}/usage': 'container:read',
  'GET /container-usage': 'container:read',
  'GET /containers/{id}/traffic': 'container:read',
  'GET /containers/{id}/history': 'container:read',
  'GET /containers/{id}/timeline': 'container:read',
  'GET /containers/{id}/connection': 'container:read',
  'GET /containers/{id}/random-port': 'container:network',
  'GET /containers/{id}/firewall': 'container:network',
  'PUT /containers/{id}/firewall': 'container:network',
  'POST /containers/{id}/start': 'container:power',
  'POST /containers/{id}/stop': 'container:power',
  'POST /containers/{id}/restart': 'container:power',
  'POST /containers/{id}/reinstall': 'container:reinstall',
  'POST /containers/{id}/reset-password': 'container:password',
  'PUT /containers/{id}/boot': 'container:reinstall',
  'POST /containers/{id}/port-mappings': 'container:network',
  'PUT /containers/{id}/port-mappings/{index}': 'container:network',
  'DELETE /containers/{id}/port-mappings/{index}': 'container:network',
  'GET /containers/{id}/snapshots': 'snapshot:read',
  'POST /containers/{id}/snapshots': 'snapshot:create',
  'POST /containers/{id}/snapshots/schedule': 'snapshot:schedule',
  'POST /containers/{id}/snapshots/{snapshot_id}/restore': 'snapshot:restore',
  'DELETE /containers/{id}/snapshots/{snapshot_id}': 'snapshot:delete',
  'GET /schedules': 'container:read',
  'GET /images/enabled': 'image:read',
  'GET /templates': 'image:read',
  'GET /tasks': 'task:read',
  'GET /tasks/{task_id}': 'task:read',
  'GET /events': 'task:read',
  'GET /language': 'any',
  'GET /version': 'any',
  'GET /caller': 'any',
  'POST /ssh-ticket': 'terminal:ssh',
  'POST /vnc-ticket': 'terminal:vnc',
  'GET /containers/{id}/screenshot': 'terminal:vnc',
  'GET /session': 'session',
  'POST /logout': 'session',
  'POST /account/password': 'session',
  'POST /account/confirm': 'session',
  'POST /account/confirm/passkey/begin': 'session',
  'POST /account/confirm/passkey': 'session',
  'GET /account/sessions': 'session',
  'DELETE /account/sessions': 'session',
  'DELETE /account/sessions/{id}': 'session',
  'GET /account/ssh-keys': 'session',
  'PUT /account/time-zone': 'session',
  'POST /account/ssh-keys': 'session',
  'DELETE /account/ssh-keys/{id}': 'session',
  'GET /account/passkeys': 'session',
  'POST /account/passkeys': 'session',
  'POST /account/passkeys/begin': 'session',
  'PATCH /account/passkeys/{id}': 'session',
  'DELETE /account/passkeys/{id}': 'session',
  'POST /account/totp': 'session',
  'POST /account/totp/confirm': 'session',
  'DELETE /account/totp': 'session',
  'POST /account/totp/recovery-codes': 'session',
  'GET /account/audit-logs': 'session',
  'GET /account/login-logs': 'session',
}
const nameOf = ({ method, path }: Route): string => `${method} ${path}`
const permissionFor = (route: Route): string | undefined => forSubUsers[nameOf(route)]
/** True if a sub-user needs no permission for the route. */
const takesNone = (route: Route): boolean => ['any', 'session'].includes(permissionFor(route) ?? '')

describe('the access check of every route', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let guest: Guest

  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
    calls = new SubUserCalls(gateway)
    guest = await gateway.fleet.addGuest({ name: 'own-guest' })
  })
  after(() => gateway.close())

  const isFor = (route: Route, caller: string): boolean => route.scope === caller
  const byKey = (fields: object) => {
    let made: Promise<Caller> | undefined
    return async (): Promise<Caller> => (made ??= makeKey(fields))
  }
  const makeKey = async (fields: object): Promise<Caller> => {
    const body = { name: `of-callers-${JSON.stringify(fields).length}`, ...fields }
    const { key } = (await gateway.request('POST', '/api-keys', { body })).body.data as { key: string }
    return (method, path, options) => gateway.request(method, path, { ...options, key })
  }
  const keyWith = new Map<string, Promise<Caller>>()
  const keyOf = (scopes: string[]): Promise<Caller> => {
    const found = keyWith.get(scopes.join()) ?? makeKey({ scopes })
    keyWith.set(scopes.join(), found)
    return found
  }
  /** Makes callers with one shared session. Each call of a route about sessions gets a new session instead. */
  const bySession = (begin: () => () => Promise<Caller>) => {
    const [shared, own] = [begin(), begin()]
    let made: Promise<Caller> | undefined
    return (route: Route): Promise<Caller> =>
      ['session', 'public'].includes(route.scope) ? own() : (made ??= shared())
  }
  let accountCount = 0
  const subUser = (permissions: readonly string[], change = {}) =>
    bySession(() => {
      let id: Promise<string> | undefined
      return async () => {
        const fields = { container_name: guest.name, permissions, username: `of-callers-${++accountCount}` }
        id ??= calls.make(fields).then((made) => made.id)
        const caller = await calls.loggedIn({ id: await id })
        await calls.change(await id, change)
        return caller
      }
    })
  const isOpen = (route: Route): boolean => isFor(route, 'public')
  const orOpen = (route: Route, otherwise: ExpectedAnswer): ExpectedAnswer => (isOpen(route) ? 'in' : otherwise)
  const everything = ['*']
  const scopesBut = (scope: string) => scopeCatalogue.filter((one) => !coversScope([one], scope))

  const kinds: Kind[] = [
    {
      name: 'answers 401 to a caller without credentials, except on public routes',
      of: async () => (method, path, options) => gateway.request(method, path, { ...options, key: '' }),
      expected: (route) => orOpen(route, unknown),
    },
    {
      name: 'answers 403 to a key without the required scope, except on routes that require none',
      of: (route) => keyOf(scopesBut(route.scope)),
      expected: (route) => (['public', 'any'].includes(route.scope) ? 'in' : refused),
    },
    {
      name: 'accepts a key with only the required scope, except on routes about sessions',
      of: (route) => keyOf([['public', 'any', 'session'].includes(route.scope) ? 'task:read' : route.scope]),
      expected: (route) => (isForSessions(route) ? refused : 'in'),
    },
    {
      name: 'accepts a key bound to one container, except on routes closed to such keys',
      of: (() => {
        let made: Promise<Caller> | undefined
        return () => (made ??= makeKey({ scopes: everything, container_uuids: [guest.uuid] }))
      })(),
      expected: (route) => orOpen(route, isFor(route, 'session') || route.bound === 'refused' ? refused : 'in'),
    },
    {
      name: 'answers 401 to a disabled key, except on public routes',
      of: byKey({ scopes: everything, disabled: true }),
      expected: (route) => orOpen(route, [401, 'key_disabled']),
    },
    {
      name: 'answers 401 to an expired key, except on public routes',
      of: byKey({ scopes: everything, expires_at: past }),
      expected: (route) => orOpen(route, [401, 'key_expired']),
    },
    {
      name: 'answers 403 to a key that is used from outside its address whitelist, except on public routes',
      of: byKey({ scopes: everything, ip_whitelist: inside }),
      expected: (route) => orOpen(route, [403, 'ip_not_allowed']),
    },
    {
      name: 'accepts an administrator who has logged in',
      of: bySession(() => () => calls.admin(`admin-${++accountCount}`)),
      expected: () => 'in',
    },
    {
      name: 'accepts an administrator with a lower role on the routes of this role, and answers 403 on other routes',
      of: bySession(() => () => calls.admin(`admin-${++accountCount}`, 'support')),
      expected: (route) => {
        const needsNoScope = ['any', 'session'].includes(route.scope)
        return orOpen(route, needsNoScope || coversScope(scopesOf('support'), route.scope) ? 'in' : refused)
      },
    },
    {
      name: 'answers 401 to an administrator who was disabled after login, except on public routes',
      of: bySession(() => async () => {
        const account = await calls.makeAdmin(`admin-${++accountCount}`)
        const caller = await calls.session(account)
        const path = `/admins/${account.id}`
        const { status, text } = await gateway.request('PATCH', path, { body: { disabled: true } })
        expect(status, text).to.equal(200)
        return caller
      }),
      expected: (route) => orOpen(route, unknown),
    },
    {
      name: 'accepts a sub-user with every permission on routes for sub-users, and answers 403 on other routes',
      of: subUser(defaultPermissions),
      expected: (route) => orOpen(route, permissionFor(route) ? 'in' : refused),
    },
    {
      name: 'accepts a sub-user with only the required permission on routes for sub-users',
      of: (() => {
        const of = new Map<string, (route: Route) => Promise<Caller>>()
        return (route: Route) => {
          const permission = permissionFor(route) ?? 'any'
          const wanted = defaultPermissions.filter((one) => one === permission)
          const made = of.get(permission) ?? subUser(wanted)
          of.set(permission, made)
          return made(route)
        }
      })(),
      expected: (route) => orOpen(route, permissionFor(route) ? 'in' : refused),
    },
    {
      name: 'answers 403 to a sub-user without the required permission, except on routes that require none',
      of: (() => {
        const of = new Map<string, (route: Route) => Promise<Caller>>()
        return (route: Route) => {
          const permission = permissionFor(route) ?? 'any'
          const made = of.get(permission) ?? subUser(defaultPermissions.filter((one) => one !== permission))
          of.set(permission, made)
          return made(route)
        }
      })(),
      expected: (route) => orOpen(route, takesNone(route) ? 'in' : refused),
    },
    {
      name: 'accepts changes of port mappings by a sub-user who may change only their container ports',
      of: subUser(['container:network:inner']),
      expected: (route) =>
        orOpen(
          route,
          takesNone(route) || nameOf(route) === 'PUT /containers/{id}/port-mappings/{index}' ? 'in' : refused,
        ),
    },
    {
      name: 'answers 401 to a sub-user who was disabled after login, except on public routes',
      of: subUser(defaultPermissions, { disabled: true }),
      expected: (route) => orOpen(route, unknown),
    },
    {
      name: 'answers 401 to a sub-user who expired after login, except on public routes',
      of: subUser(defaultPermissions, { expires_at: past }),
      expected: (route) => orOpen(route, unknown),
    },
  ]

  const pathOf = ({ path }: Route): string => path.replaceAll(/\{\w+\}/g, '999999')

  /** Both prefixes serve the same routes. */
  const prefixes = ['/api/v1', '/api']

  for (const kind of kinds)
    it(kind.name, async () => {
      for (const route of gateway.api.routes)
        for (const prefix of prefixes) {
          const caller = await kind.of(route)
          const { status, body, text } = await caller(route.method, `${prefix}${pathOf(route)}`)
          const label = `${prefix}: ${nameOf(route)}: ${status} ${text.slice(0, 200)}`
          const expected = kind.expected(route)
          // A public route may answer 401 for reasons of its own, such as missing credentials.
          if (isOpen(route)) expect([403, 500], label).not.to.include(status)
          else if (expected === 'in') expect([401, 403, 500], label).not.to.include(status)
          else expect([status, body?.code], label).to.deep.equal(expected)
        }
    })

  it('allows sub-users exactly the routes in this test’s list', () => {
    const open = gateway.api.routes.filter(
      ({ scope, subUser = 'refused' }) => scope !== 'public' && subUser !== 'refused',
    )
    expect(open.map(nameOf).sort()).to.deep.equal(Object.keys(forSubUsers).sort())
    for (const route of open) expect(permissionFor(route), nameOf(route)).to.equal(route.scope)
    const [inner, ...others] = open.filter(({ subUser }) => subUser === 'inner').map(nameOf)
    expect([inner, others]).to.deep.equal(['PUT /containers/{id}/port-mappings/{index}', []])
  })

  it('rejects every caller whose address the access policy excludes', async () => {
    const admin = await calls.admin('at-the-door')
    const via = (address: string) => ({ headers: { 'x-forwarded-for': address } })
    const policy = { enabled: true, allowed_sources: [inside] }
    const on = await gateway.request('PUT', '/access-policy', { body: policy, ...via(inside) })
    expect(on.status, on.text).to.equal(200)
    const key: Caller = (method, path, options) => gateway.request(method, path, options)
    const sub = await calls.loggedIn({
      id: (await gateway.access.subUsers.list(everybody))[0]!.id.toString(),
    })
    for (const route of gateway.api.routes)
      for (const caller of [admin, key, sub]) {
        const { status, body } = await caller(route.method, pathOf(route), via(outside))
        expect([status, body.code], nameOf(route)).to.deep.equal([403, 'access_policy_denied'])
      }
    const off = { body: { enabled: false, allowed_sources: [] }, ...via(inside) }
    expect((await gateway.request('PUT', '/access-policy', off)).status).to.equal(200)
  })
})

const everybody = { kind: 'nobody', ref: '', root: '', user: '', scopes: [], guests: 'all' } as const
