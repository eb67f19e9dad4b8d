import { usageError } from '../errors.js'
import { commandOf, type Flag, type Operation } from '../catalog/operation.js'
import { missingError } from './usage.js'
import { parseJson, parseValues, type ValueContext } from './values.js'

/** Values that the user wrote on the command line. */
export interface Input {
  readonly arguments: readonly string[]
  /** Values by the name of the flag. A value is the state of a switch, or a list of all texts given for the flag. */
  readonly flags: ReadonlyMap<string, readonly string[] | boolean>
  /** JSON of the body, to which flags are added; `@FILE` reads it from a file. */
  readonly body?: string
}

export interface PlannedRequest {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>> | undefined
}

/** Builds the request of a command. @throws {CliError} `usage` */
export function planRequest(operation: Operation, input: Input, context: ValueContext): PlannedRequest {
  const values = new Map(
    operation.flags.flatMap((flag) => {
      const given = input.flags.get(flag.name)
      return given === undefined ? [] : [[flag, typeof given === 'boolean' ? given : parseValues(flag, given, context)]]
    }),
  )
  const body = bodyOf(operation, input, values, context)
  const missing = missingParts(operation, input, context)
  if (missing.length > 0) throw missingError(commandOf(operation), missing, operation.example)
  return { method: operation.method, path: pathOf(operation, input), query: queryOf(values), body }
}

type Values = ReadonlyMap<Flag, unknown>

function bodyOf(
  operation: Operation,
  input: Input,
  values: Values,
  context: ValueContext,
): Record<string, unknown> | undefined {
  if (!operation.hasBody) {
    if (input.body !== undefined) throw usageError('--data: this command has no body')
    return undefined
  }
  const named = operation.arguments.flatMap(({ place, field }, index) =>
    place === 'body' && input.arguments[index] !== undefined ? [[field, input.arguments[index]]] : [],
  )
  const fields = [...values].filter(([flag]) => flag.place === 'body').map(([flag, value]) => [flag.field, value])
  const given = Object.fromEntries([...named, ...fields]) as Record<string, unknown>
  return { ...givenBody(input.body, context), ...given }
}

function givenBody(text: string | undefined, { readFile }: ValueContext): object {
  if (text === undefined) return {}
  const value = parseJson('--data', text.startsWith('@') ? readFile(text.slice(1)) : text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw usageError('--data: must be a JSON object')
  return value
}

/** Returns the names of all arguments and flags that are required and were not given. @throws {CliError} `usage` */
export function missingParts(operation: Operation, input: Input, context: ValueContext): string[] {
  const body = givenBody(input.body, context) as Readonly<Record<string, unknown>>
  const isInBody = (place: string, field: string): boolean => place === 'body' && body[field] !== undefined
  const names = operation.arguments.filter(
    ({ place, field }, index) => !input.arguments[index] && !isInBody(place, field),
  )
  const flags = operation.flags.filter(
    ({ isRequired, name, place, field }) => isRequired && !input.flags.has(name) && !isInBody(place, field),
  )
  return [...names.map(({ label }) => label.toUpperCase()), ...flags.map(({ name }) => `--${name}`)]
}

function pathOf(operation: Operation, input: Input): string {
  return operation.arguments.reduce((path, { place, field, label }, index) => {
    if (place !== 'path') return path
    const value = input.arguments[index]!
    if (value === '.' || value === '..') throw usageError(`${label.toUpperCase()}: must not be . or ..`)
    return path.replace(`{${field}}`, encodeURIComponent(value))
  }, operation.path)
}

function queryOf(values: Values): Record<string, string> {
  const pairs = [...values].filter(([flag]) => flag.place === 'query')
  return Object.fromEntries(pairs.map(([flag, value]) => [flag.field, String(value)]))
}
