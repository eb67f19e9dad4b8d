import type { TSchema } from 'typebox'
import { invalidField } from '../../shared/errors.js'

/*
 * What clients of the field mean by what they send. Older billing modules send every field they know, numbers as
 * text, empty text for nothing. Derived from the schemas, before they are checked: a value that has the right form
 * stays as it is, one that means a right value becomes it, anything else is left for the check to refuse.
 */

/** Keywords of our own in request schemas; the published document leaves them out. */
export const ownKeywords = ['trim', 'restricts', 'entries', 'numeric', 'zeroIsAbsent'] as const

/** In a request schema: blanks around the text mean nothing. */
export const trimmed = { trim: true } as const

/**
 * In a request schema: the field bounds what somebody may do. `null`, blank text and lists of nothing but empty
 * entries are no word on it: in a change it stays as it is, in a creation they are refused. What the field's
 * description says of `""` and `[]` holds.
 */
export const restricts = { restricts: true } as const

/** In a request schema: text of entries that commas or new lines separate; a list of text is taken too. */
export const entries = { entries: true } as const

/** In a request schema: the text may be sent as a whole number. */
export const numeric = { numeric: true } as const

/** In a request schema: 0 is what clients send for "as it is". */
export const zeroIsAbsent = { zeroIsAbsent: true } as const

interface Schema {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly unknown[]
  readonly format?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly trim?: boolean
  readonly restricts?: boolean
  readonly entries?: boolean
  readonly numeric?: boolean
  readonly zeroIsAbsent?: boolean
}

/** @throws {BerthError} `invalid_field` only where a restriction is left open in a creation */
export type Normalize = (value: Record<string, unknown>) => Record<string, unknown>

/** @param creates the request makes something new, so that there is nothing that could stay as it is */
export function compileNormalizer(schema: TSchema, creates: boolean): Normalize {
  const read = readerOf(schema, creates)
  return (value) => read(value, '') as Record<string, unknown>
}

/** @param at the name of the field, for messages */
type Read = (value: unknown, at: string) => unknown

/** What takes the place of a value that says nothing. */
const absent = Symbol('absent')

function readerOf(schema: Schema, creates: boolean): Read {
  if (schema.enum) return (value) => readWord(schema.enum ?? [], value)
  switch (schema.type) {
    case 'object':
      return objectReader(schema, creates)
    case 'array':
      return listReader(schema, creates)
    case 'integer':
      return readInteger
    case 'number':
      return readNumber
    case 'boolean':
      return readBoolean
    case 'string':
      return (value) => readText(schema, value)
    case undefined:
    default:
      return (value) => value
  }
}

function objectReader({ properties = {}, required = [] }: Schema, creates: boolean): Read {
  const fields = Object.entries(properties).map(([name, schema]) => ({
    name,
    read: fieldReader(schema, required.includes(name), creates),
  }))
  return (value, at) => {
    if (isEmptyList(value)) return {} // PHP has one empty array for both
    if (!isObject(value)) return value
    for (const { name, read } of fields) {
      if (!Object.hasOwn(value, name)) continue
      const meant = read(value[name], at === '' ? name : `${at}.${name}`)
      if (meant === absent) Reflect.deleteProperty(value, name)
      else value[name] = meant
    }
    return value
  }
}

/** What stands in a field, or `absent`. */
function fieldReader(schema: Schema, required: boolean, creates: boolean): Read {
  const read = readerOf(schema, creates)
  if (schema.restricts) return restrictionReader(schema, read, { required, creates })
  return (value, at) => {
    if (!required && saysNothing(schema, value)) return absent
    const meant = read(value, at)
    return schema.zeroIsAbsent && meant === 0 ? absent : meant
  }
}

function saysNothing(schema: Schema, value: unknown): boolean {
  if (value === null) return true
  if (schema.type === 'object' && isEmptyList(value)) return true
  if (typeof value !== 'string' || keepsBlanks(schema)) return false
  return value === '' || (schema.type === 'string' && value.trim() === '')
}

/** Text that is taken to the letter, blanks and emptiness included: a note, a password. */
function keepsBlanks({ type, trim, format, enum: words }: Schema): boolean {
  return type === 'string' && !trim && format === undefined && words === undefined
}

function restrictionReader(
  schema: Schema,
  read: Read,
  { required, creates }: { required: boolean; creates: boolean },
): Read {
  return (value, at) => {
    if (!leavesOpen(schema, value)) return read(value, at)
    if (required) return value
    if (!creates) return absent
    throw invalidField(
      at,
      `${at}: is sent, but names nothing; leave it out, or say plainly what it is to allow`,
    )
  }
}

/** True where nothing is said of a restriction, though something is sent. */
function leavesOpen(schema: Schema, value: unknown): boolean {
  if (value === null) return true
  if (schema.type === 'array' || schema.entries) return hasNoEntry(schema, value)
  // `""` alone is a word of the contract, where the field is text.
  return typeof value === 'string' && value.trim() === '' && (value !== '' || schema.type !== 'string')
}

function hasNoEntry(schema: Schema, value: unknown): boolean {
  if (isObject(value)) return Object.keys(value).length === 0
  if (Array.isArray(value))
    return (value.length > 0 || schema.type !== 'array') && value.every((entry) => namesNothing(entry))
  if (typeof value !== 'string') return false
  return splitEntries(value).length === 0 && (value !== '' || schema.type === 'array')
}

/** An entry may itself be text of entries, which is read as several later: `[","]` has none. */
function namesNothing(entry: unknown): boolean {
  return entry === null || (typeof entry === 'string' && splitEntries(entry).length === 0)
}

function listReader({ items = {} }: Schema, creates: boolean): Read {
  const read = readerOf(items, creates)
  const isText = items.type === 'string' || items.enum !== undefined
  return (value, at) => {
    // PHP's empty array, as an object. A change would replace a whole list by nothing: there it must be a list.
    if ((creates || isText) && isObject(value) && Object.keys(value).length === 0) return []
    const list = isText && typeof value === 'string' ? splitEntries(value) : value
    if (!Array.isArray(list)) return list
    const named = isText ? list.filter((entry) => !isBlank(entry)) : (list as unknown[])
    return named.map((entry, index) => read(entry, `${at}.${index}`))
  }
}

function splitEntries(text: string): string[] {
  return text.split(/[,\n]/).filter((part) => part.trim() !== '')
}

function readWord(words: readonly unknown[], value: unknown): unknown {
  if (typeof value !== 'string' || words.includes(value)) return value
  const wanted = value.trim().toLowerCase()
  return words.find((word) => typeof word === 'string' && word.toLowerCase() === wanted) ?? value
}

function readText(schema: Schema, value: unknown): unknown {
  if (schema.entries && Array.isArray(value) && value.every((entry) => typeof entry === 'string'))
    return value.join(',')
  if (schema.numeric && Number.isSafeInteger(value)) return String(value)
  if (typeof value !== 'string') return value
  return keepsBlanks(schema) ? value : value.trim()
}

/** Decimal text as people write a number: no sign but the minus, no leading zeros, no exponent, no hexadecimal. */
export function readInteger(value: unknown): unknown {
  if (typeof value !== 'string' || !/^(0|-?[1-9]\d{0,15})$/.test(value.trim())) return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Text with more digits than a number keeps is not one. */
function readNumber(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return /^-?(0|[1-9]\d{0,8})(\.\d{1,6})?$/.test(value.trim()) ? Number(value) : value
}

const booleans = new Map<unknown, boolean>([
  ...(['true', '1', 1] as const).map((word) => [word, true] as const),
  ...(['false', '0', 0] as const).map((word) => [word, false] as const),
])

function readBoolean(value: unknown): unknown {
  const word = typeof value === 'string' ? value.trim().toLowerCase() : value
  return booleans.get(word) ?? value
}

function isBlank(value: unknown): boolean {
  return value === null || (typeof value === 'string' && value.trim() === '')
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
