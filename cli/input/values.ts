import { usageError } from '../errors.js'
import type { Flag } from '../catalog/operation.js'
import { objectExample } from './object-examples.js'
import { parseSize } from './sizes.js'
import { isTimeField, parseTime } from './times.js'

/** Clock and files, which values can refer to. */
export interface ValueContext {
  nowMs(): number
  /** Returns the content of a file; `-` is the standard input. */
  readonly readFile: (path: string) => string
}

/** Converts the texts of a flag to the value of its field. @throws {CliError} `usage` */
export function parseValues(flag: Flag, texts: readonly string[], context: ValueContext): unknown {
  if (!flag.isList) return parseValue(flag, texts.at(-1) ?? '', context)
  if (texts.length === 1 && texts[0] === '') return []
  const all = texts.flatMap((text) => (flag.type === 'object' || text.startsWith('@') ? [text] : text.split(',')))
  return all.map((text) => parseValue(flag, text, context)).flat()
}

function parseValue(flag: Flag, written: string, context: ValueContext): unknown {
  const text = contentOf(written, context)
  if (flag.type === 'object') return parseObject(flag, text)
  if (flag.type === 'size') return named(flag, () => parseSize(text, flag.unit ?? 'B'))
  if (flag.type === 'whole' || flag.type === 'number') return flag.names ? text : parseNumber(flag, text)
  const values = flag.values
  const value = values?.find((one) => one.toLowerCase() === text.toLowerCase())
  if (values !== undefined && value === undefined && text !== '')
    throw usageError(`--${flag.name}: ${text} must be one of ${values.join(', ')}`)
  return value ?? (isTimeField(flag.field) ? parseTime(text, context.nowMs()) : text)
}

/** `@FILE` stands for the content of a file. A text that begins with `@` itself is written with `@@`. */
function contentOf(text: string, { readFile }: ValueContext): string {
  if (text.startsWith('@@')) return text.slice(1)
  return text.startsWith('@') ? readFile(text.slice(1)).replace(/\r?\n$/, '') : text
}

function named<T>({ name }: Flag, parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw usageError(`--${name}: ${(cause as Error).message}`)
  }
}

function parseNumber({ name, type }: Flag, text: string): number {
  const number = Number(text)
  if (text.trim() === '' || !Number.isFinite(number)) throw usageError(`--${name}: ${text} is not a number`)
  if (type === 'whole' && !Number.isInteger(number)) throw usageError(`--${name}: ${text} is not a whole number`)
  return number
}

/** Parses an object from JSON or from `key=value,key=value`. The gateway converts the values to their types. */
function parseObject({ name, field }: Flag, text: string): unknown {
  if (/^\s*[[{]/.test(text)) return parseJson(`--${name}`, text)
  const pairs = text.split(',').map((pair) => /^([^=]+)=(.*)$/.exec(pair))
  if (pairs.some((pair) => pair === null)) {
    const example = objectExample(field)
    const hint = example && `example: --${name} ${example}`
    throw usageError(`--${name}: ${text} is neither JSON nor key=value,key=value`, hint)
  }
  return Object.fromEntries(pairs.map((pair) => [pair![1]!, pair![2]!]))
}

/** Returns words that are separated by commas, without empty ones. @throws {CliError} `usage` if there are none */
export function splitWords(flag: string, text: string): string[] {
  const words = text.split(',').map((word) => word.trim())
  const named = words.filter((word) => word !== '')
  if (named.length === 0) throw usageError(`${flag}: must not be empty`)
  return named
}

/** Returns the word. @throws {CliError} `usage` if it is not allowed */
export function parseWord(flag: string, word: string, allowed: readonly string[]): string {
  if (allowed.includes(word)) return word
  throw usageError(`${flag}: ${word || "''"} must be one of ${allowed.join(', ')}`)
}

/** Returns a whole number. @throws {CliError} `usage` for another text, or a number out of range */
export function parseWhole(source: string, text: string, [least, most]: readonly [number, number]): number {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : -1
  if (number >= least && number <= most) return number
  throw usageError(`${source}: ${text || "''"} is not a whole number from ${least} to ${most}`)
}

/** @param source name of the flag or file that contains the text, for the error message */
export function parseJson(source: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw usageError(`${source}: not valid JSON: ${(cause as Error).message}`)
  }
}
