import { Type, type Static } from 'typebox'
import { BerthError, invalidField } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { parseAddressList } from '../../access/addresses.js'
import type { ApiKeys, ListedKey } from '../../access/api-keys.js'
import type { KeyRecord } from '../../access/key-record.js'
import { administratorId, type KeyFields } from '../../access/plan-keys.js'
import { isUnbounded, type Principal } from '../../access/principal.js'
import { coversScope, defaultScopes, everything, isGrantable, scopeCatalogue } from '../../access/scopes.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { entries, numeric, restricts, trimmed } from '../../http/normalize.js'
import { keyNamePattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { TimeSchema, timeSchema } from '../../http/schema.js'
import { nothingToChange, updatedAnswer } from '../guests/guest-settings.js'

export const keyFields = {
  name: Type.String({
    ...trimmed,
    minLength: 1,
    maxLength: 64,
    pattern: keyNamePattern,
    description: 'Name of the key: at most 64 printable characters on one line.',
  }),
  ip_whitelist: Type.String({
    ...restricts,
    ...entries,
    maxLength: 16_384,
    description:
      'Client addresses from which the key can be used: IPv4 and IPv6 addresses and CIDRs, separated by commas or new lines. Empty: any address.',
  }),
  scopes: Type.Array(Type.String({ ...trimmed, maxLength: 64 }), {
    ...restricts,
    minItems: 1,
    maxItems: 200,
    description: `Scopes of the key. The possible scopes are \`*\`, \`area:*\` and ${scopeCatalogue.join(', ')}. Default: ${defaultScopes.join(', ')}.`,
  }),
  expires_at: Type.String({
    ...restricts,
    ...trimmed,
    ...numeric,
    maxLength: 64,
    description:
      'Time at which the key expires: `YYYY-MM-DD HH:MM[:SS]`, RFC 3339, a date (the end of that day) or Unix seconds. Empty: the key does not expire.',
  }),
  disabled: Type.Boolean({ ...restricts, description: '`true`: requests with the key are refused. Default: `false`.' }),
  container_uuids: Type.Array(Type.String({ format: 'uuid' }), {
    ...restricts,
    maxItems: 10_000,
    description:
      'UUIDs of the containers to which the key is limited. An empty list: the key is valid for all containers.',
  }),
}
const optionalFields = {
  ip_whitelist: Type.Optional(keyFields.ip_whitelist),
  scopes: Type.Optional(keyFields.scopes),
  expires_at: Type.Optional(keyFields.expires_at),
  disabled: Type.Optional(keyFields.disabled),
  container_uuids: Type.Optional(keyFields.container_uuids),
}
const CreateSchema = Type.Object({ name: keyFields.name, ...optionalFields })
const UpdateSchema = Type.Object({ name: Type.Optional(keyFields.name), ...optionalFields })
type UpdateBody = Static<typeof UpdateSchema>

const UpdateRowSchema = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  prefix: Type.String({ description: 'First characters of the key, by which it can be recognized.' }),
  scopes: Type.Array(Type.String()),
  expires_at: timeSchema('the key expires', 'it does not expire'),
  disabled: Type.Boolean(),
  container_uuids: Type.Array(Type.String()),
})
const ChangedRowSchema = Type.Object({
  ...UpdateRowSchema.properties,
  ignored: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Fields of the request that were ignored because they are not known.',
    }),
  ),
})
const CreateRowSchema = Type.Object(
  {
    ...UpdateRowSchema.properties,
    key: Type.String({ description: 'The complete key. It is returned only in this answer.' }),
    ip_whitelist: Type.String(),
  },
  { title: 'CreatedApiKey' },
)
const ListRowSchema = Type.Object(
  {
    ...UpdateRowSchema.properties,
    ip_whitelist: Type.String(),
    created_at: TimeSchema,
    created_by: Type.Integer({
      description:
        'Id of the key that created this key. This key never has more rights than that one. 0: this key was created at setup or by an administrator.',
    }),
    last_used: timeSchema('the key was last used', 'it was never used'),
    last_used_ip: Type.String(),
  },
  { title: 'ApiKey' },
)
type ListRow = Static<typeof ListRowSchema>

const PathSchema = Type.Object({ id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) })
const sortable = ['id', 'name', 'created_at', 'last_used', 'expires_at', 'disabled', 'created_by'] as const

export interface ApiKeyDeps {
  readonly keys: ApiKeys
  readonly time: TimeFormat
}

export function apiKeyRoutes({ keys, time }: ApiKeyDeps): Route[] {
  const common = { tag: 'API keys' } as const
  return [
    route({
      ...common,
      method: 'GET',
      path: '/api-keys',
      name: 'listApiKeys',
      subUser: 'refused',
      sortable,
      scope: 'apikey:read',
      bound: 'own',
      summary: 'Lists the API keys',
      query: listQuery({ name: Type.String({ maxLength: 64 }), disabled: Type.Boolean() }),
      data: Type.Array(ListRowSchema),
      handle: async ({ caller, query }) => {
        const listed = await keys.list(callerIdOf(caller))
        const rows = listed.map((key) => listRow(key, time))
        return listAnswer(rows, query, { sortable, filters: ['name', 'disabled'] })
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api-keys',
      name: 'createApiKey',
      subUser: 'refused',
      scope: 'apikey:create',
      bound: 'own',
      confirmed: true,
      audit: 'apikey.create',
      summary: 'Creates an API key',
      body: CreateSchema,
      example: {
        name: 'billing',
        ip_whitelist: '192.0.2.10,2001:db8::/64',
        scopes: ['container:*', 'task:read'],
        expires_at: '2030-12-31 23:59:59',
      },
      data: CreateRowSchema,
      statuses: [201],
      errors: ['not_found', 'invalid_state', 'key_limit_reached'],
      handle: async (context) => {
        const { caller, body, headers, operationId } = context
        const fields = { ...parseFields(body, time), name: body.name.trim() }
        // If the request can be repeated, the key is stored encrypted for some hours.
        const repeatable = headers['idempotency-key'] !== undefined
        const { record, key } = await keys.create(callerIdOf(caller), fields, repeatable ? operationId : undefined)
        context.audit({ target: record.name, detail: `id ${record.id}, ${describeGrant(record)}` })
        const data = { ...updateRow(record, time), key, ip_whitelist: record.addresses.join(',') }
        return { status: 201, message: 'API key created: store it now, it is not shown again', data }
      },
    }),
    route({
      ...common,
      method: 'PATCH',
      path: '/api-keys/{id}',
      name: 'updateApiKey',
      subUser: 'refused',
      scope: 'apikey:update',
      bound: 'own',
      confirmed: true,
      audit: 'apikey.update',
      summary: 'Changes an API key. Omitted fields stay unchanged',
      params: PathSchema,
      body: UpdateSchema,
      example: { disabled: true },
      data: ChangedRowSchema,
      errors: ['not_found', 'invalid_state'],
      handle: async (context) => {
        const { caller, params, body } = context
        const record = await keys.update(callerIdOf(caller), params.id, parseFields(body, time))
        const sent = Object.keys(body).filter((name) => name in keyFields)
        context.audit({ target: record.name, detail: `id ${record.id}, set ${sent.join(', ') || 'nothing'}` })
        const message = sent.length > 0 ? 'API key updated' : nothingToChange
        const { data: ignored } = updatedAnswer(message, body, UpdateSchema)
        return { message, data: { ...updateRow(record, time), ...ignored } }
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/api-keys/{id}',
      name: 'deleteApiKey',
      subUser: 'refused',
      scope: 'apikey:delete',
      bound: 'own',
      confirmed: true,
      audit: 'apikey.delete',
      summary: 'Deletes an API key. If the rights of the key are limited, all keys that it created are deleted too',
      params: PathSchema,
      errors: ['not_found', 'invalid_state'],
      handle: async (context) => {
        const { caller, params } = context
        const [removed, ...others] = await keys.remove(callerIdOf(caller), params.id)
        const also = others.length === 0 ? '' : `, together with keys ${others.map((key) => key.id).join(', ')}`
        context.audit({ target: removed?.name ?? '', detail: `id ${params.id}${also}` })
        return { message: `API key deleted${also}` }
      },
    }),
  ]
}

/** @throws {BerthError} `insufficient_scope` if the caller is neither a key nor a full administrator */
export function callerIdOf(caller: Principal): number {
  if (caller.kind === 'key') return caller.keyId
  if (caller.kind === 'session' && isUnbounded(caller) && coversScope(caller.scopes, everything)) return administratorId
  throw new BerthError('forbidden', 'insufficient_scope', 'only full administrators and API keys can manage API keys')
}

/** @throws {BerthError} `invalid_field` */
function parseFields(body: UpdateBody, time: TimeFormat): KeyFields {
  const { ip_whitelist: addresses, expires_at: expiry, container_uuids: uuids } = body
  return {
    name: body.name?.trim(),
    addresses: addresses === undefined ? undefined : parseAddressList('ip_whitelist', addresses),
    scopes: body.scopes && parseScopes(body.scopes),
    expiresAtMs: expiry === undefined ? undefined : time.parseField('expires_at', expiry.trim()),
    disabled: body.disabled,
    containerUuids: uuids && [...new Set(uuids.map((uuid) => uuid.toLowerCase()))],
  }
}

function parseScopes(scopes: readonly string[]): string[] {
  const unknown = scopes.find((scope) => !isGrantable(scope))
  if (unknown !== undefined)
    throw invalidField('scopes', `scopes: unknown scope ${JSON.stringify(unknown.slice(0, 64))}`)
  return [...new Set(scopes)]
}

function updateRow(record: KeyRecord, time: TimeFormat): Static<typeof UpdateRowSchema> {
  return {
    id: record.id,
    name: record.name,
    prefix: record.prefix,
    scopes: [...record.scopes],
    expires_at: time.format(record.expiresAtMs),
    disabled: record.disabled,
    container_uuids: [...record.containerUuids],
  }
}

function listRow({ record, use }: ListedKey, time: TimeFormat): ListRow {
  return {
    ...updateRow(record, time),
    ip_whitelist: record.addresses.join(','),
    created_at: time.format(record.createdAtMs),
    created_by: record.parentId,
    last_used: time.format(use?.atMs ?? 0),
    last_used_ip: use?.address ?? '',
  }
}

export function describeGrant(record: KeyRecord): string {
  const bound = record.containerUuids.length === 0 ? '' : `, ${record.containerUuids.length} containers`
  const scopes = record.scopes.join(' ')
  return `scopes ${scopes.length > 200 ? `${scopes.slice(0, 200)} …` : scopes || 'none'}${bound}`
}
