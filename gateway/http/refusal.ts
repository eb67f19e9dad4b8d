import type { ErrorObject } from 'ajv/dist/2020.js'
import { BerthError, invalidField } from '../../shared/errors.js'
import { ruleOfPattern } from './pattern-rules.js'

export type RequestPart = 'path' | 'query' | 'body'

/** Converts a schema's error to an error that names field, rule and a valid example. @param example a valid body */
export function refusalOf(error: ErrorObject | undefined, part: RequestPart, example: unknown): BerthError {
  const steps = (error?.instancePath ?? '').split('/').slice(1)
  if (error?.keyword === 'required') {
    const missing = [...steps, String(error.params['missingProperty'])]
    const field = missing.join('.')
    const message = `${field}: is required${exampleText(error, example, missing)}`
    return new BerthError('invalid', 'missing_field', message, { field })
  }
  // No object can exist at a path with an invalid value. The status is therefore 404.
  if (part === 'path') return new BerthError('not_found', 'not_found', 'not found')
  const field = fieldName(steps.join('.') || part)
  return invalidField(field, `${field}: ${ruleOf(error)}${exampleText(error, example, steps)}`)
}

/** Makes a field's name short and printable, because clients can choose the names in some objects. */
export function fieldName(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?').slice(0, 100)
}

interface Rules {
  readonly minimum?: number
  readonly maximum?: number
  readonly examples?: readonly unknown[]
}

const types: Readonly<Record<string, string>> = {
  integer: 'must be a whole number',
  number: 'must be a number',
  boolean: 'must be true or false',
  string: 'must be text',
  array: 'must be a list',
  object: 'must be an object',
}

const formats: Readonly<Record<string, string>> = {
  ipv4: 'must be an IPv4 address',
  ipv6: 'must be an IPv6 address',
  uuid: 'must be a uuid',
}

type Describe = (params: Readonly<Record<string, unknown>>, schema: Rules) => string

const entriesText = (count: unknown): string => `${String(count)} ${count === 1 ? 'entry' : 'entries'}`

/** Describes a violated rule, by its keyword in JSON Schema. */
const rules: Readonly<Record<string, Describe>> = {
  enum: ({ allowedValues }) => `must be one of ${(allowedValues as unknown[]).join(', ')}`,
  type: ({ type }) => types[String(type)] ?? 'has the wrong type',
  format: ({ format }) => formats[String(format)] ?? 'has the wrong format',
  minimum: (_, schema) => rangeOf(schema),
  maximum: (_, schema) => rangeOf(schema),
  minLength: ({ limit }) => (limit === 1 ? 'must not be empty' : `must have at least ${String(limit)} characters`),
  maxLength: ({ limit }) => `must have at most ${String(limit)} characters`,
  pattern: ({ pattern }) => ruleOfPattern(String(pattern)) ?? 'has the wrong format',
  minItems: ({ limit }) => `must have at least ${entriesText(limit)}`,
  maxItems: ({ limit }) => `must have at most ${entriesText(limit)}`,
}

function ruleOf(error: ErrorObject | undefined): string {
  const schema = (error?.parentSchema ?? {}) as Rules
  const describe = error && rules[error.keyword]
  return describe ? describe(error.params, schema) : 'has the wrong format'
}

function rangeOf({ minimum, maximum }: Rules): string {
  if (minimum === undefined || maximum === undefined)
    return minimum === undefined ? `must be at most ${maximum}` : `must be at least ${minimum}`
  return `must be from ${minimum} to ${maximum}`
}

/** An example for the field, from its schema or from the example of the body. */
function exampleText(error: ErrorObject | undefined, body: unknown, steps: readonly string[]): string {
  const own = error?.keyword === 'required' ? undefined : (error?.parentSchema as Rules | undefined)?.examples?.[0]
  const shown = own ?? valueAt(body, steps)
  if (shown === undefined || error?.keyword === 'enum') return ''
  const text = JSON.stringify(shown)
  return text.length > 200 ? '' : `, for example ${text}`
}

/** Finds the value of a field in the example. In lists the first entry is used, because examples have only one. */
function valueAt(body: unknown, steps: readonly string[]): unknown {
  let value = body
  for (const step of steps) {
    if (typeof value !== 'object' || value === null) return undefined
    const name = Array.isArray(value) ? '0' : step
    if (!Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}
