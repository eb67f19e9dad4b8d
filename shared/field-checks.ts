import { BerthError, inOtherField, invalidField } from './errors.js'
import { isDescription } from './guest-rules.js'

/* Each function checks one field and returns its value. @throws {BerthError} `invalid_field` naming the field */

export interface Range {
  readonly min: number
  readonly max: number
}

export function checkInteger(field: string, value: number, { min, max }: Range): number {
  if (!Number.isSafeInteger(value) || value < min || value > max)
    throw invalidField(field, `${field}: must be an integer from ${min} to ${max}`, {
      name: 'range',
      values: { min, max },
    })
  return value
}

export function oneOf<const Word extends string>(field: string, value: string, words: readonly Word[]): Word {
  const word = words.find((known) => known === value)
  if (word === undefined)
    throw invalidField(field, `${field}: must be one of ${words.join(', ')}`, {
      name: 'one_of',
      values: { allowed: words.join(', ') },
    })
  return word
}

export function checkDescription(field: string, text: string): string {
  if (!isDescription(text))
    throw invalidField(field, `${field}: must be at most 200 printable characters on one line`, {
      name: 'description',
    })
  return text
}

/** Puts the name of an object before the field in errors of a check: `rules.0.port` becomes `firewall.rules.0.port`. */
export function inField<T>(name: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof BerthError) || error.field === undefined) throw error
    throw inOtherField(error, `${name}.${error.field}`, `${name}.${error.message}`)
  }
}
