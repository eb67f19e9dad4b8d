import type { Flag, FlagType, NamedKind, SizeUnit } from './operation.js'

/* Derives flags from the schemas of parameters and fields. */

/** The part of a JSON schema that this program uses. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: readonly string[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
  readonly examples?: readonly unknown[]
}

export interface FieldPlace {
  readonly place: 'query' | 'body'
  readonly isRequired: boolean
}

/** Names of flags that differ from the name of the field. If `names` is set, the value names a guest or a host. */
const special: Readonly<Record<string, { readonly name: string; readonly names?: NamedKind }>> = {
  host_id: { name: 'host', names: 'host' },
  canary_host_id: { name: 'canary-host', names: 'host' },
  without_hosts: { name: 'without-host', names: 'host' },
  template_id: { name: 'image' },
  container: { name: 'guest' },
  containers: { name: 'guest' },
  container_id: { name: 'guest', names: 'guest-id' },
  container_name: { name: 'guest-name' },
  container_names: { name: 'guest' },
  container_uuid: { name: 'guest', names: 'guest-uuid' },
  container_uuids: { name: 'guest', names: 'guest-uuid' },
  container_port: { name: 'guest-port' },
  container_port_end: { name: 'guest-port-end' },
  allowed_image_ids: { name: 'allowed-image' },
  port_mapping_count: { name: 'port-count' },
  nat_port_mappings: { name: 'port' },
}

/** @param schema JSON schema. The schema and its items must not contain `$ref`. */
export function flagOf(field: string, schema: Schema, { place, isRequired }: FieldPlace): Flag {
  const isList = schema.type === 'array' || (field === 'extra_ports' && schema.type === undefined)
  const unit = unitOf(field, schema)
  const value = isList ? (schema.items ?? {}) : schema
  const { name, names } = special[field] ?? { name: plainName(field, isList, unit !== undefined) }
  return {
    name,
    place,
    field,
    type: typeOf(value, unit),
    text: schema.description ?? '',
    ...(isList && { isList: true }),
    ...(isRequired && { isRequired: true }),
    ...(unit && { unit }),
    ...namedValues(value, names),
  }
}

/** Returns the allowed values, or the kind of object that a value names. */
function namedValues(value: Schema, names: NamedKind | undefined): Pick<Flag, 'values' | 'names'> {
  return { ...(value.enum && { values: value.enum }), ...(names && value.type !== 'object' && { names }) }
}

function typeOf({ type, enum: values }: Schema, unit: SizeUnit | undefined): FlagType {
  if (unit) return 'size'
  if (values) return 'text'
  const types: Readonly<Record<string, FlagType>> = {
    integer: 'whole',
    number: 'number',
    boolean: 'switch',
    object: 'object',
  }
  return types[type ?? ''] ?? 'text'
}

function unitOf(field: string, { type, description = '' }: Schema): SizeUnit | undefined {
  if (type !== 'integer') return undefined
  if (field.endsWith('_bytes')) return 'B'
  if (field.endsWith('_mb')) return 'MiB'
  if (!field.endsWith('_gb')) return undefined
  return description.includes('10^9') ? 'GB' : 'GiB'
}

function plainName(field: string, isList: boolean, hasUnit: boolean): string {
  const base = hasUnit ? field.replace(/_(bytes|mb|gb)$/, '') : field.replace(/(?<!key)_id$/, '')
  const name = base.replaceAll('_', '-')
  if (!isList) return name
  return name
    .replace(/ies$/, 'y')
    .replace(/(address|prefix)es$/, '$1')
    .replace(/(?<!s)s$/, '')
}
