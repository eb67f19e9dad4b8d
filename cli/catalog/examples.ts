import { commandOf, type Flag, type Operation, type SizeUnit } from './operation.js'

/* This module builds the example of a command from the example in the OpenAPI document. */

type Source = Omit<Operation, 'example'> & { readonly exampleBody?: unknown }

const sampleArguments: Readonly<Record<string, string>> = { guest: 'web1', host: 'host-a', name: 'web1', index: '0' }
/** Maximum number of flags in an example. */
const maxFlags = 6

export function exampleOf(operation: Source): string {
  const body = (operation.exampleBody ?? {}) as Readonly<Record<string, unknown>>
  const values = operation.arguments.map(
    ({ label, place, field }) =>
      (place === 'body' ? textOf(body[field]) : undefined) ?? sampleArguments[label] ?? label.toUpperCase(),
  )
  const flags = [...operation.flags]
    .sort((a, b) => Number(b.isRequired ?? false) - Number(a.isRequired ?? false))
    .flatMap((flag) => exampleFlag(flag, body[flag.field]))
    .slice(0, maxFlags)
  return [commandOf(operation), ...values, ...flags].join(' ')
}

function exampleFlag(flag: Flag, value: unknown): string[] {
  if (value === undefined && flag.isRequired && flag.type !== 'object') return [`--${flag.name} ${sampleOf(flag)}`]
  if (typeof value === 'boolean') return [value ? `--${flag.name}` : `--no-${flag.name}`]
  if (Array.isArray(value)) return value.slice(0, 1).flatMap((one) => exampleFlag({ ...flag }, one))
  const text = flag.type === 'size' ? sizeText(value, flag.unit) : (recordText(value) ?? textOf(value))
  return text === undefined ? [] : [`--${flag.name} ${text}`]
}

function sampleOf({ values, name }: Flag): string {
  return values?.[0] ?? name.toUpperCase()
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'string' || value === '' || value.includes('\n')) return undefined
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`
}

/** Returns an object in a form that flags accept: `key=value,key=value` or JSON. */
function recordText(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const entries = Object.entries(value)
  const isPlain = entries.every(([, one]) => typeof one !== 'object' && !String(one).includes(','))
  return textOf(isPlain ? entries.map(([key, one]) => `${key}=${String(one)}`).join(',') : JSON.stringify(value))
}

const suffixes: Readonly<Record<SizeUnit, string>> = { B: '', MiB: 'm', GiB: 'g', GB: 'g' }

function sizeText(value: unknown, unit: SizeUnit | undefined): string | undefined {
  return typeof value === 'number' && unit !== undefined ? `${value}${suffixes[unit]}` : undefined
}
