import type { ErrorObject } from 'ajv/dist/2020.js'
import { BerthError, invalidField, type ErrorRule } from '../../shared/errors.js'
import { ruleOfPattern } from './pattern-rules.js'

export type RequestPart = 'path' | 'query' | 'body'

/** Converts a schema's error to an error that names field, rule and a valid example. @param example a valid body */
export function refusalOf(error: ErrorObject | undefined, part: RequestPart, example: unknown): BerthError {
  const steps = (error?.instancePath ?? '').split('/').slice(1)
  if (error?.keyword === 'required') {
    const missing = [...steps, String(error.params['missingProperty'])]
    const field = missing.join('.')
    const message = `${field}: is required${exampleText(error, example, missing)}`
    return new BerthError('invalid', 'missing_field', message, { field, rule: { name: 'required' } })
  }
  // No object can exist at a path with an invalid value. The status is therefore 404.
  if (part === 'path') return new BerthError('not_found', 'not_found', 'not found')
  const field = fieldName(steps.join('.') || part)
  const { text, rule } = ruleOf(error)
  return invalidField(field, `${field}: ${text}${exampleText(error, example, steps)}`, rule)
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

/** A violated rule: its description for messages, and its name and limits for clients that translate errors. */
interface Violation {
  readonly text: string
  readonly rule?: ErrorRule
}

const violation = (text: string, name: string, values?: ErrorRule['values']): Violation => ({
  text,
  rule: { name, ...(values && { values }) },
})
const unknownViolation: Violation = { text: 'has the wrong format' }

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

type Describe = (params: Readonly<Record<string, unknown>>, schema: Rules) => Violation

const entriesText = (count: unknown): string => `${String(count)} ${count === 1 ? 'entry' : 'entries'}`

/** Describes a violated rule, by its keyword in JSON Schema. */
const rules: Readonly<Record<string, Describe>> = {
  enum: ({ allowedValues }) => {
    const allowed = (allowedValues as unknown[]).join(', ')
    return violation(`must be one of ${allowed}`, 'one_of', { allowed })
  },
  type: ({ type }) => named(types, 'type', type, 'has the wrong type'),
  format: ({ format }) => named(formats, 'format', format, unknownViolation.text),
  minimum: (_, schema) => rangeOf(schema),
  maximum: (_, schema) => rangeOf(schema),
  minLength: ({ limit }) =>
    limit === 1
      ? violation('must not be empty', 'not_empty')
      : violation(`must have at least ${String(limit)} characters`, 'min_length', { min: Number(limit) }),
  maxLength: ({ limit }) =>
    violation(`must have at most ${String(limit)} characters`, 'max_length', { max: Number(limit) }),
  pattern: ({ pattern }) => {
    const known = ruleOfPattern(String(pattern))
    return known ? violation(known.text, known.name) : unknownViolation
  },
  minItems: ({ limit }) => violation(`must have at least ${entriesText(limit)}`, 'min_items', { min: Number(limit) }),
  maxItems: ({ limit }) => violation(`must have at most ${entriesText(limit)}`, 'max_items', { max: Number(limit) }),
}

/** The violation of a type or format that is one of a table, such as the rule `type_integer`. */
function named(table: Readonly<Record<string, string>>, keyword: string, value: unknown, other: string): Violation {
  const text = table[String(value)]
  return text === undefined ? { text: other } : violation(text, `${keyword}_${String(value)}`)
}

function ruleOf(error: ErrorObject | undefined): Violation {
  const schema = (error?.parentSchema ?? {}) as Rules
  const describe = error && rules[error.keyword]
  return describe ? describe(error.params, schema) : unknownViolation
}

function rangeOf({ minimum: min, maximum: max }: Rules): Violation {
  if (min !== undefined && max !== undefined) return violation(`must be from ${min} to ${max}`, 'range', { min, max })
  if (min !== undefined) return violation(`must be at least ${min}`, 'minimum', { min })
  return violation(`must be at most ${max}`, 'maximum', { max: max ?? 0 })
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
