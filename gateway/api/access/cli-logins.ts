import { Type, type Static } from 'typebox'
import { conflict } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { ApiKeys } from '../../access/api-keys.js'
import { cliLoginMs, pollSeconds, type CliLogin, type CliLogins } from '../../accounts/cli-logins.js'
import { trimmed } from '../../http/normalize.js'
import { keyNamePattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'
import { callerIdOf, describeGrant, keyFields } from './api-keys.js'

/* These routes handle logins of the command line, which users confirm in the panel (similar to RFC 8628). */

const maxMachine = 48
const UserCode = Type.String({
  ...trimmed,
  minLength: 1,
  maxLength: 32,
  description: 'Code that the command line shows. Case, spaces and hyphens do not matter.',
})
const UserCodeSchema = Type.Object({ user_code: UserCode })
const exampleCode = { user_code: 'BDFH-KMPR' }
const BegunSchema = Type.Object({
  device_code: Type.String({ description: 'Secret with which `POST /cli-logins/poll` returns the key.' }),
  user_code: Type.String({ description: 'Code that the user types on the page `#/cli-login` of the panel.' }),
  expires_in: Type.Integer({ description: 'Seconds until the login expires.' }),
  interval: Type.Integer({ description: 'Seconds to wait between two calls of `POST /cli-logins/poll`.' }),
})
const PolledSchema = Type.Object({
  status: oneOf(['pending', 'approved'], '`pending`: no user has confirmed or denied the login yet.'),
  key: Type.Optional(Type.String({ description: 'The API key. It is returned only once.' })),
  name: Type.Optional(Type.String({ description: 'Name of the API key.' })),
})
const LoginSchema = Type.Object(
  {
    machine: Type.String({
      description: 'Name of the computer on which `berth login` runs, as that computer reported it.',
    }),
    address: Type.String({ description: 'Address from which the login was begun.' }),
    begun_at: timeSchema('the login was begun'),
    expires_at: timeSchema('the login expires unless it is confirmed'),
  },
  { title: 'CliLogin' },
)
const ApprovedSchema = Type.Object({ id: Type.Integer({ description: 'Id of the new API key.' }), name: Type.String() })

export interface CliLoginDeps {
  readonly keys: ApiKeys
  readonly logins: CliLogins
  readonly time: TimeFormat
}

export function cliLoginRoutes(deps: CliLoginDeps): Route[] {
  return [beginRoute(deps), pollRoute(deps), findRoute(deps), approveRoute(deps), denyRoute(deps), endRoute(deps)]
}

const open = { method: 'POST', scope: 'public', bound: 'same', subUser: 'allowed', tag: 'API keys' } as const
const answering = { method: 'POST', scope: 'apikey:create', bound: 'own', subUser: 'refused', tag: 'API keys' } as const

function beginRoute({ logins }: CliLoginDeps): Route {
  return route({
    ...open,
    path: '/cli-logins',
    name: 'beginCliLogin',
    audit: false,
    summary: 'Begins a login of the command line, which an administrator confirms in the panel',
    body: Type.Object({
      machine: Type.String({
        ...trimmed,
        minLength: 1,
        maxLength: maxMachine,
        pattern: keyNamePattern,
        description: 'Name of the computer, which the panel shows.',
      }),
    }),
    example: { machine: 'laptop' },
    data: BegunSchema,
    statuses: [201],
    handle: async ({ body, address }) => {
      const { deviceCode, userCode } = await logins.begin(body.machine.trim(), address)
      const times = { expires_in: cliLoginMs / 1000, interval: pollSeconds }
      return { status: 201, data: { device_code: deviceCode, user_code: userCode, ...times } }
    },
  })
}

function pollRoute({ logins }: CliLoginDeps): Route {
  return route({
    ...open,
    path: '/cli-logins/poll',
    name: 'pollCliLogin',
    audit: false,
    summary: 'Returns the API key of a confirmed login of the command line. Answers 202 until the login is confirmed',
    body: Type.Object({
      device_code: Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'Secret that `POST /cli-logins` returned.',
      }),
    }),
    example: { device_code: 'x'.repeat(43) },
    data: PolledSchema,
    statuses: [200, 202],
    errors: ['cli_login_unknown', 'cli_login_denied'],
    handle: async ({ body }) => {
      const created = await logins.poll(body.device_code)
      if (!created) return { status: 202, data: { status: 'pending' as const } }
      return { status: 200, data: { status: 'approved' as const, key: created.key, name: created.record.name } }
    },
  })
}

function findRoute({ logins, time }: CliLoginDeps): Route {
  return route({
    ...answering,
    path: '/cli-logins/find',
    name: 'findCliLogin',
    audit: false,
    summary: 'Returns the pending login of the command line that has this code',
    body: UserCodeSchema,
    example: exampleCode,
    data: LoginSchema,
    errors: ['cli_login_unknown', 'invalid_state'],
    handle: async ({ body, caller }) => ({ data: loginRow(await logins.find(caller.root, body.user_code), time) }),
  })
}

function approveRoute({ keys, logins, time }: CliLoginDeps): Route {
  return route({
    ...answering,
    path: '/cli-logins/approve',
    name: 'approveCliLogin',
    confirmed: true,
    audit: 'apikey.create',
    summary: 'Confirms a login of the command line: creates an API key, which only the command line receives',
    body: Type.Object({
      user_code: UserCode,
      rights: oneOf(['all', 'read'], '`all`: all scopes of the caller. `read`: the read-only set of a new key.'),
      expires_at: Type.Optional(keyFields.expires_at),
    }),
    example: { ...exampleCode, rights: 'read', expires_at: '2030-12-31 23:59:59' },
    data: ApprovedSchema,
    statuses: [201],
    errors: ['cli_login_unknown', 'invalid_state', 'key_limit_reached', 'not_found'],
    handle: async (context) => {
      const { caller, body, operationId } = context
      const callerId = callerIdOf(caller)
      const expiry = body.expires_at?.trim()
      const fields = {
        ...(body.rights === 'all' && { scopes: [...caller.scopes] }),
        ...(expiry !== undefined && { expiresAtMs: time.parseField('expires_at', expiry) }),
        isLogin: true,
      }
      const given = { userCode: body.user_code, operationId }
      const { record, machine, address } = await logins.approve(caller.root, given, ({ machine }) =>
        keys.create(callerId, { ...fields, name: `berth on ${machine}` }, operationId, cliLoginMs),
      )
      const detail = `id ${record.id}, ${describeGrant(record)}, login of the command line on ${machine} at ${address}`
      context.audit({ target: record.name, detail })
      return { status: 201, message: 'login confirmed', data: { id: record.id, name: record.name } }
    },
  })
}

function denyRoute({ logins }: CliLoginDeps): Route {
  return route({
    ...answering,
    path: '/cli-logins/deny',
    name: 'denyCliLogin',
    audit: 'clilogin.deny',
    summary: 'Denies a login of the command line',
    body: UserCodeSchema,
    example: exampleCode,
    errors: ['cli_login_unknown', 'invalid_state'],
    handle: async (context) => {
      const { machine, address } = await logins.deny(context.caller.root, context.body.user_code)
      context.audit({ target: machine, detail: `from ${address}` })
      return { message: 'login denied' }
    },
  })
}

function endRoute({ keys }: CliLoginDeps): Route {
  return route({
    method: 'POST',
    path: '/cli-logins/end',
    name: 'endCliLogin',
    scope: 'any',
    bound: 'own',
    subUser: 'refused',
    tag: 'API keys',
    audit: 'apikey.delete',
    summary: 'Deletes the API key of this request, if the command line got it by a login in the panel',
    errors: ['insufficient_scope', 'invalid_state', 'not_found'],
    handle: async (context) => {
      const { caller } = context
      if (caller.kind !== 'key') throw conflict('invalid_state', 'only available with an API key')
      const removed = await keys.removeLogin(caller.keyId)
      context.audit({ target: removed.name, detail: `id ${removed.id}, logout of the command line` })
      return { message: 'API key deleted' }
    },
  })
}

function loginRow(login: CliLogin, time: TimeFormat): Static<typeof LoginSchema> {
  const { machine, address, begunAtMs, expiresAtMs } = login
  return { machine, address, begun_at: time.format(begunAtMs), expires_at: time.format(expiresAtMs) }
}
