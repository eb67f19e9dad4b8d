import type { TSchema } from 'typebox'
import { invalidField } from '../../shared/errors.js'

/*
 * Normalizes values of clients before validation. Older billing modules send all fields that they know, numbers as
 * text, and empty text for absent values. The rules depend on the schema. A valid value stays unchanged. Another
 * spelling of a valid value is replaced. Any other value stays, so that validation rejects it.
 */

/** Berth's own keywords in request schemas. They are removed from the published document. */
export const ownKeywords = ['trim', 'restricts', 'entries', 'numeric', 'zeroIsAbsent', 'keepsEntries'] as const

/** Schema keyword: whitespace around the text is removed. */
export const trimmed = { trim: true } as const

/**
 * Schema keyword: the field restricts access. `null`, whitespace and lists of empty entries count as an absent field. A
 * change then keeps the stored value, and a creation is rejected. The fields' descriptions explain `""` and `[]`.
 */
export const restricts = { restricts: true } as const

/** Schema keyword: the value is a list of text, or one text whose entries are separated by commas or new lines. */
export const entries = { entries: true } as const

/** Schema keyword: the text may also be sent as a whole number. */
export const numeric = { numeric: true } as const

/** Schema keywords of a container's id, uuid or name in a body. An id may be sent as a number. */
export const containerRef = { ...trimmed, ...numeric } as const

/** Schema keyword: 0 counts as absent. */
export const zeroIsAbsent = { zeroIsAbsent: true } as const

/** Schema keyword: empty entries of the list have a meaning, as in the arguments of a program. */
export const keepsEntries = { keepsEntries: true } as const

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
  readonly keepsEntries?: boolean
}

/** Normalizes an object. @throws {BerthError} `invalid_field` if a creation contains an empty restriction */
export type Normalize = (value: Record<string, unknown>) => Record<string, unknown>

export interface NormalizeMode {
  /** True if the request creates an object, so that an omitted field has no stored value. */
  readonly creates: boolean
  /** True if the value is part of a path. In a path, whole numbers are only accepted as `110`, not as `110.00`. */
  readonly isPath?: boolean
}

export function compileNormalizer(schema: TSchema, mode: NormalizeMode): Normalize {
  const read = readerOf(schema, mode)
  return (value) => read(value, '') as Record<string, unknown>
}

/** Normalizes the value of a field. @param at name of the field, for error messages */
type FieldReader = (value: unknown, at: string) => unknown

/** Result for a value that counts as absent. */
const absent = Symbol('absent')

function readerOf(schema: Schema, mode: NormalizeMode): FieldReader {
  if (schema.enum) return (value) => readWord(schema.enum ?? [], value)
  switch (schema.type) {
    case 'object':
      return objectReader(schema, mode)
    case 'array':
      return listReader(schema, mode)
    case 'integer':
      return mode.isPath ? readInteger : readWholeNumber
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

function objectReader({ properties = {}, required = [] }: Schema, mode: NormalizeMode): FieldReader {
  const fields = Object.entries(properties).map(([name, schema]) => ({
    name,
    read: fieldReader(schema, required.includes(name), mode),
  }))
  return (value, at) => {
    if (isEmptyList(value)) return {} // PHP cannot distinguish an empty list from an empty object
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

/** Creates the function that normalizes a field. Its result can be `absent`. */
function fieldReader(schema: Schema, required: boolean, mode: NormalizeMode): FieldReader {
  const read = readerOf(schema, mode)
  if (schema.restricts) return restrictionReader(schema, read, { required, creates: mode.creates })
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

/** True if whitespace and empty text are values, as in notes and passwords. False if such text counts as absent. */
function keepsBlanks({ type, trim, format, enum: words }: Schema): boolean {
  return type === 'string' && !trim && format === undefined && words === undefined
}

function restrictionReader(
  schema: Schema,
  read: FieldReader,
  { required, creates }: { required: boolean; creates: boolean },
): FieldReader {
  return (value, at) => {
    if (!leavesOpen(schema, value)) return read(value, at)
    if (required) return value
    if (!creates) return absent
    throw invalidField(at, `${at}: must not be empty: omit it, or list what to allow`)
  }
}

/** True if this value of a field with the keyword `restricts` counts as an absent field. */
function leavesOpen(schema: Schema, value: unknown): boolean {
  if (value === null) return true
  if (schema.type === 'array' || schema.entries) return hasNoEntry(schema, value)
  // Empty text has a meaning only for text fields. The descriptions of these fields explain the meaning.
  return typeof value === 'string' && value.trim() === '' && (value !== '' || schema.type !== 'string')
}

function hasNoEntry(schema: Schema, value: unknown): boolean {
  if (isObject(value)) return Object.keys(value).length === 0
  if (Array.isArray(value))
    return (value.length > 0 || schema.type !== 'array') && value.every((entry) => namesNothing(entry))
  if (typeof value !== 'string') return false
  return splitEntries(value).length === 0 && (value !== '' || schema.type === 'array')
}

/** True if an entry is blank. Text can contain several entries, separated by commas. All entries of `","` are blank. */
function namesNothing(entry: unknown): boolean {
  return entry === null || (typeof entry === 'string' && splitEntries(entry).length === 0)
}

function listReader({ items = {}, keepsEntries: keepsAll = false }: Schema, mode: NormalizeMode): FieldReader {
  const read = readerOf(items, mode)
  const isText = items.type === 'string' || items.enum !== undefined
  return (value, at) => {
    // PHP can send an empty list as `{}`. A change must not accept `{}` as an empty list of objects, because it would
    // delete all entries.
    if ((mode.creates || isText) && isObject(value) && Object.keys(value).length === 0) return []
    const list = isText && typeof value === 'string' ? splitEntries(value) : value
    if (!Array.isArray(list)) return list
    const named = isText && !keepsAll ? list.filter((entry) => !isBlank(entry)) : (list as unknown[])
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

/** Converts decimal text to an integer. Leading zeros, exponents and hexadecimal digits are not accepted. */
export function readInteger(value: unknown): unknown {
  if (typeof value !== 'string' || !/^(0|-?[1-9]\d{0,15})$/.test(value.trim())) return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Converts decimal text to an integer. Zeros after the point are accepted, because PHP and MySQL write "110.00". */
function readWholeNumber(value: unknown): unknown {
  const number = readInteger(typeof value === 'string' ? value.trim().replace(/\.0{1,10}$/, '') : value)
  return typeof number === 'number' ? number : value
}

/** Converts decimal text to a number. Text with too many digits for an exact number stays text. */
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
