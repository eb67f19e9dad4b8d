import { objectExample } from './object-keys.js'
import { commandOf, type Flag, type Operation, type SizeUnit } from './operation.js'

/* This module builds the example of a command from the example in the OpenAPI document. */

type Source = Omit<Operation, 'example'> & { readonly exampleBody?: unknown }

const sampleArguments: Readonly<Record<string, string>> = {
  guest: 'web1',
  host: 'node1',
  name: 'web1',
  index: '0',
  file: 'web1.tar.zst',
}

/** Arguments and flags of commands for which the example of the API is not a good one. */
const better: Readonly<Record<string, string>> = {
  'api-key create': "billing --scope 'container:*' --ip-whitelist 192.0.2.10 --expires-at +90d",
  'audit-log export': '--from -7d > audit.jsonl',
  'audit-log list': '--from -1d --success',
  'backup list': '--guest-name web1',
  'backup restore': 'web1 BACKUP',
  'backup-target backups': 'BACKUP-TARGET --guest web1',
  'backup-target check': 'BACKUP-TARGET --host node1',
  'backup-target delete-backup': 'BACKUP-TARGET BACKUP --guest web1',
  'customer create': '--guest web1 --permission container:read,container:power',
  'guest assign-ipv6': 'web1 --ipv6-count 1',
  'guest create': 'web1 --image debian-12 --vcpu 1 --ram 512m --disk 5g',
  'guest create-many': '--name web --count 3 --image debian-12 --ram 512m',
  'guest delete': 'web1',
  'guest export': 'web1 -f web1.tar.zst',
  'guest import': 'web1.tar.zst --name web2',
  'guest list': '--status running --sort name',
  'guest list-usage': '--columns name,cpu_usage_pct',
  'guest migrate': 'web1 --host node2',
  'guest screenshot': 'web1 > web1.png',
  'guest set-expiry': 'web1 --expires-at +30d',
  'guest set-standby': 'web1 --host node2 --interval-minutes 5',
  'host drain': 'node1 --deadline +2h',
  'image list': '--host node1 --downloaded',
  'login-log export': '--from -7d > logins.jsonl',
  'login-log list': '--from -1d --no-success',
  'port add': 'web1 --guest-port 80 --host-port 20080',
  'security alerts': '--severity critical',
  'task list': '--status failed',
}
/** Maximum number of flags in an example, unless more are required. */
const maxFlags = 6

export function exampleOf(operation: Source): string {
  const known = better[commandOf(operation)]
  if (known !== undefined) return `${commandOf(operation)} ${known}`
  const body = (operation.exampleBody ?? {}) as Readonly<Record<string, unknown>>
  const values = operation.arguments.map(
    ({ label, place, field }) =>
      (place === 'body' ? textOf(body[field]) : undefined) ?? sampleArguments[label] ?? label.toUpperCase(),
  )
  const flags = [...operation.flags]
    .sort((a, b) => Number(b.isRequired ?? false) - Number(a.isRequired ?? false))
    .flatMap((flag) => exampleFlag(flag, body[flag.field]))
    .slice(0, Math.max(maxFlags, operation.flags.filter(({ isRequired }) => isRequired).length))
  return [commandOf(operation), ...values, ...flags].join(' ')
}

function exampleFlag(flag: Flag, value: unknown): string[] {
  if (value === undefined && flag.isRequired && flag.type !== 'object') return [`--${flag.name} ${sampleOf(flag)}`]
  if (value === false && !flag.isRequired) return []
  if (typeof value === 'boolean') return [value ? `--${flag.name}` : `--no-${flag.name}`]
  if (Array.isArray(value)) return value.slice(0, 1).flatMap((one) => exampleFlag({ ...flag }, one))
  const text = valueText(flag, value)
  return text === undefined ? [] : [`--${flag.name} ${text}`]
}

function valueText(flag: Flag, value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (flag.type === 'size') return sizeText(value, flag.unit)
  return flag.type === 'object' ? objectExample(flag, recordText(value)) : textOf(value)
}

/** Returns an example of the value of a flag with an object. @param body example of the request */
export function exampleValue(flag: Flag, body: unknown): string {
  const value = (body as Readonly<Record<string, unknown>> | undefined)?.[flag.field]
  return objectExample(flag, recordText(Array.isArray(value) ? value[0] : value))
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

/** Number of units for each suffix, the largest first. */
const suffixes: Readonly<Record<SizeUnit, Readonly<Record<string, number>>>> = {
  B: { g: 2 ** 30, m: 2 ** 20, k: 2 ** 10, '': 1 },
  MiB: { g: 2 ** 10, m: 1 },
  GiB: { t: 2 ** 10, g: 1 },
  GB: { t: 1000, g: 1 },
}

function sizeText(value: unknown, unit: SizeUnit | undefined): string | undefined {
  if (typeof value !== 'number' || unit === undefined) return undefined
  const found = Object.entries(suffixes[unit]).find(([, units]) => value > 0 && value % units === 0)
  return found ? `${value / found[1]}${found[0]}` : String(value)
}
