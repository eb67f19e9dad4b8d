import type { SizeUnit } from '../catalog/operation.js'
import { parseSize } from '../input/sizes.js'
import { parseCidrOrAddress } from '../../shared/addresses.js'
import { BerthError } from '../../shared/errors.js'
import { isRecord } from '../output/table.js'

/* A form converts values between a fleet file and the API. A field's canonical value is the value in the API. */

export type Path = readonly (string | number)[]

/** A value that a form refuses. The path leads from the value to the wrong part. */
export class InvalidValue extends Error {
  constructor(
    message: string,
    readonly path: Path = [],
  ) {
    super(message)
  }
}

export interface Form {
  /** Converts a value of the file to its canonical value. @throws {InvalidValue} */
  parse(value: unknown): unknown
  /** Converts a value in a row of the API to its canonical value. Without this function, the value stays as it is. */
  read?(value: unknown): unknown
  /** Converts a canonical value to a value of the file. Without this function, the value stays as it is. */
  write?(value: unknown): unknown
  /** Converts a canonical value to a value in a request. Without this function, the value stays as it is. */
  send?(value: unknown): unknown
  /** Converts a canonical value to its text in the list of differences. Default: the text in the file. */
  describe?(value: unknown): string
  /** Compares the parts of a value. Without this function, values are compared as a whole. */
  parts?(wanted: unknown, current: unknown): Parts
}

/** The difference between two values. Each entry is the text of one part, such as a port mapping. */
export interface Parts {
  readonly removed: readonly string[]
  readonly added: readonly string[]
}

const refuse = (message: string): never => {
  throw new InvalidValue(message)
}

export const text: Form = {
  parse: (value) => (typeof value === 'string' ? value : refuse('must be a text')),
  read: (value) => value ?? '',
}

export const whole: Form = {
  parse: (value) => (Number.isInteger(value) ? value : refuse('must be a whole number')),
}

export const decimal: Form = {
  parse: (value) => (Number.isFinite(value) ? value : refuse('must be a number')),
}

export const flag: Form = {
  parse: (value) => (typeof value === 'boolean' ? value : refuse('must be true or false')),
}

export const oneOf = (...words: readonly string[]): Form => ({
  parse: (value) => (words.some((word) => word === value) ? value : refuse(`must be one of ${words.join(', ')}`)),
})

const suffixes = { MiB: 'm', GiB: 'g', GB: 'g' } as const

/** A size such as `512m`, as a whole number of its unit. */
export const size = (unit: Exclude<SizeUnit, 'B'>): Form => ({
  parse(value) {
    if (typeof value !== 'string' && typeof value !== 'number') return refuse('must be a size, such as 512m')
    return withMessage(() => parseSize(String(value), unit))
  },
  write: (value) => `${String(value)}${suffixes[unit]}`,
})

function withMessage<T>(parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw new InvalidValue((cause as Error).message)
  }
}

/** A time in the time zone of the gateway. The API shows it without an offset. Empty: never. */
export const time: Form = {
  parse(value) {
    if (value === '' || value === 'never') return ''
    const [, date, minute, second = ':00'] =
      /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?$/.exec(typeof value === 'string' ? value : '') ?? []
    if (date === undefined)
      return refuse('must be never, YYYY-MM-DD or YYYY-MM-DD HH:MM:SS, in the time zone of the gateway')
    return minute === undefined ? `${date} 23:59:59` : `${date} ${minute}${second}`
  },
  write: (value) => (value === '' ? 'never' : value),
}

/** A list of texts whose order has no meaning. */
export const words: Form = {
  parse: (value) => sortedSet(textsOf(value)),
  read: (value) => sortedSet((value ?? []) as string[]),
}

export const wordsOf = (...allowed: readonly string[]): Form => ({
  ...words,
  parse: (value) =>
    sortedSet(
      textsOf(value).map((word, index) => {
        if (allowed.includes(word)) return word
        throw new InvalidValue(`must be one of ${allowed.join(', ')}`, [index])
      }),
    ),
})

export function textsOf(value: unknown): string[] {
  if (!Array.isArray(value)) return refuse('must be a list')
  return value.map((one: unknown, index) => {
    if (typeof one === 'string') return one
    throw new InvalidValue('must be a text', [index])
  })
}

export const sortedSet = (texts: readonly string[]): string[] => [...new Set(texts)].sort()

/** A list of addresses and CIDRs in their canonical form. */
export const addresses: Form = {
  ...words,
  parse: (value) => sortedSet(textsOf(value).map(canonicalAddress)),
}

/** A list of addresses that the API expects and shows as one text. */
export const joinedAddresses: Form = {
  ...addresses,
  read: (value) => sortedSet(((value ?? '') as string).split(',').filter(Boolean)),
  send: (value) => (value as string[]).join(','),
}

function canonicalAddress(written: string, index: number): string {
  const address = written.startsWith('::ffff:') ? undefined : parseCidrOrAddress(written)
  if (address) return address.text
  throw new InvalidValue('must be an IP address or a CIDR', [index])
}

/** A URL in its canonical form. */
export const url: Form = {
  parse: (value) =>
    typeof value === 'string' && URL.canParse(value) ? new URL(value).href : refuse('must be a complete URL'),
}

/**
 * Calls a check that gateway and agent use, too. Converts its error to an error with a path in the fleet file.
 * @param root name of the value in the field names of errors; empty: the field names do not contain it
 * @throws {InvalidValue} with the path of the refused field
 */
export function checked<T>(check: () => T, root = ''): T {
  try {
    return check()
  } catch (cause) {
    if (!(cause instanceof BerthError)) throw cause
    const field = cause.field ?? ''
    const message = cause.message.startsWith(`${field}: `) ? cause.message.slice(field.length + 2) : cause.message
    const path = field.split('.').filter((part, index) => part !== '' && (index > 0 || part !== root))
    throw new InvalidValue(
      message,
      path.map((part) => (/^\d+$/.test(part) ? Number(part) : part)),
    )
  }
}

export function listOf<T>(value: unknown, parse: (one: unknown) => T): T[] {
  if (!Array.isArray(value)) return refuse('must be a list')
  return value.map((one: unknown, index) => within(index, () => parse(one)))
}

/** Parses an object whose fields have forms. Fields that are not in the file are absent. @throws {InvalidValue} */
export function parseObject(forms: Readonly<Record<string, Form>>, value: unknown): Record<string, unknown> {
  if (!isRecord(value)) return refuse('must be a map of fields')
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => {
      const form = Object.hasOwn(forms, name) ? forms[name] : undefined
      if (!form) throw new InvalidValue(`is not a field; possible: ${Object.keys(forms).join(', ')}`, [name])
      return [name, within(name, () => form.parse(part))]
    }),
  )
}

/** Adds a step to the path of an invalid value. */
function within<T>(step: string | number, parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    if (cause instanceof InvalidValue) throw new InvalidValue(cause.message, [step, ...cause.path])
    throw cause
  }
}
