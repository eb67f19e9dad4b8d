/* Clients may send a value in different notations. This file makes the notations for a field from its schema. */

export interface Schema {
  readonly type?: string
  readonly enum?: readonly string[]
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly restricts?: boolean
  readonly numeric?: boolean
  readonly keepsEntries?: boolean
}

export interface Field {
  /** Path to the field within the body: names of fields and indexes, such as `nat_port_mappings`, `0`, `host_port`. */
  readonly path: readonly string[]
  readonly schema: Schema
  readonly optional: boolean
}

/** Returns the fields of a body, including fields of objects within its lists. */
export function fieldsOf(schema: Schema, at: readonly string[] = []): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, part]) => {
    const path = [...at, name]
    const inner = part.type === 'array' ? fieldsOf(part.items ?? {}, [...path, '0']) : fieldsOf(part, path)
    const own = { path, schema: part, optional: !(schema.required ?? []).includes(name) }
    return part.type === undefined && !part.enum ? [] : [own, ...inner]
  })
}

/** Makes the smallest valid body and sets the field to `value`. If `value` is `undefined`, the field is omitted. */
export function bodyWith(schema: Schema, field: Field, value: unknown): Record<string, unknown> {
  return placed(schema, rightValue(schema), field.path, value) as Record<string, unknown>
}

function placed(schema: Schema, right: unknown, [step = '', ...rest]: readonly string[], value: unknown): unknown {
  if (step === '0') return [placed(schema.items ?? {}, rightValue(schema.items ?? {}), rest, value)]
  const { [step]: own, ...others } = right as Record<string, unknown>
  const part = schema.properties?.[step] ?? {}
  const inner = rest.length > 0 ? placed(part, own ?? rightValue(part), rest, value) : structuredClone(value)
  return inner === undefined ? others : { ...others, [step]: inner }
}

export function rightValue(schema: Schema): unknown {
  if (schema.enum) return schema.enum[0]
  if (schema.examples) return schema.examples[0]
  switch (schema.type) {
    case 'integer':
    case 'number':
      return Math.max(schema.minimum ?? 0, 1)
    case 'boolean':
      return true
    case 'array':
      return [rightValue(schema.items ?? {})]
    case 'object':
      return Object.fromEntries(
        (schema.required ?? []).map((name) => [name, rightValue(schema.properties?.[name] ?? {})]),
      )
    case undefined:
    default:
      return rightText(schema)
  }
}

function rightText({ format, pattern = '' }: Schema): string {
  if (format === 'ipv4') return '192.0.2.9'
  if (format === 'ipv6') return '2001:db8::9'
  if (format === 'uuid') return '11111111-1111-4111-8111-111111111111'
  return new RegExp(pattern, 'u').test('text') ? 'text' : 'debian-12'
}

export function lenientForms(schema: Schema, right: unknown): unknown[] {
  if (schema.enum) return [String(right).toUpperCase(), String(right).toLowerCase(), ` ${String(right)} `]
  switch (schema.type) {
    case 'integer':
    case 'number':
      return [String(right), ` ${String(right)} `]
    case 'boolean':
      return ['true', 'TRUE', '1', 1, ' true ']
    case 'array':
      if (schema.items?.type !== 'string') return []
      return [String(right), ...(schema.keepsEntries ? [] : [`${String(right)},`, [right, ''].flat()])]
    case undefined:
    default:
      return schema.format ? [` ${String(right)}\n`] : []
  }
}

/** Returns the notations of an empty value: null, and also "" unless the field accepts any text. */
export function emptyForms(schema: Schema): unknown[] {
  return schema.type === 'string' && !schema.enum && !schema.format ? [null] : [null, '']
}

export function hostileForms(schema: Schema): unknown[] {
  if (schema.enum) return [`${schema.enum[0]}x`, 5, true, ['a'], { a: 1 }]
  switch (schema.type) {
    case 'integer':
      return ['0x10', '1e3', '1.5', '+1', '007', '5 MB', '1,5', 1.5, true, [1], { a: 1 }, '9007199254740993', 1e300]
    case 'number':
      return ['0x10', '1e0', '+1', '1 GB', true, [1], { a: 1 }, -1e300]
    case 'boolean':
      return ['yes', 'on', 2, '2', [true], { a: 1 }]
    case 'array':
      return [true, { a: 1 }, [[]], [true], ...(schema.items?.numeric ? [1.5, [1.5]] : [5, [5]])]
    case 'object':
      return [5, true, 'x', [1]]
    case undefined:
    default:
      return [true, { a: 1 }, [1], ...(schema.numeric ? [1.5] : [5])]
  }
}
