import { usageError } from '../errors.js'
import type { Row } from './table.js'
import { isRecord, valueAt } from './table.js'

/** Default columns of lists, by the command or by its noun. */
const defaults: Readonly<Record<string, readonly string[]>> = {
  guest: ['id', 'name', 'status', 'host_id', 'template', 'vcpu', 'ram_mb', 'disk_gb', 'ip', 'ssh_port'],
  host: [
    'id',
    'name',
    'status',
    'containers',
    'draining',
    'version',
    'cpu_cores',
    'ram_total_mb',
    'disk_total_gb',
    'address',
  ],
  task: ['task_id', 'action', 'container_name', 'status', 'progress', 'stage', 'created_at', 'user', 'error'],
  backup: ['id', 'container_name', 'created_at', 'size_bytes', 'verified_at', 'target_name', 'description'],
  'backup-target': ['id', 'name', 'type', 'backups', 'host', 'bucket', 'path'],
  snapshot: ['id', 'container_name', 'created_at', 'size_bytes', 'created_by', 'description'],
  port: ['protocol', 'host_ip', 'host_port', 'host_port_end', 'container_port', 'container_port_end', 'description'],
  'api-key': ['id', 'name', 'prefix', 'scopes', 'expires_at', 'disabled', 'last_used', 'last_used_ip'],
  customer: ['id', 'username', 'container_names', 'disabled', 'expires_at', 'last_login'],
  image: ['id', 'name', 'kind', 'downloaded', 'enabled', 'release', 'arch', 'size_bytes'],
  'image enabled': ['id', 'name', 'kind', 'distro', 'release', 'arch', 'description'],
  template: ['id', 'name', 'type', 'distro', 'release', 'arch', 'available'],
  'audit-log': ['time', 'user', 'action', 'target', 'success', 'detail', 'address'],
  'login-log': ['time', 'username', 'ip', 'method', 'success', 'reason'],
  gateway: ['id', 'name', 'state', 'answers', 'version', 'join_address', 'load_percent'],
  webhook: ['id', 'name', 'url', 'events', 'disabled'],
  'webhook deliveries': ['id', 'type', 'status', 'attempts', 'response_status', 'created_at', 'error'],
  'security alerts': ['timestamp', 'container_name', 'type', 'severity', 'target_ip', 'target_port', 'count', 'action'],
  'guest timeline': ['time', 'kind', 'action', 'status', 'user', 'detail'],
  'guest snapshots': ['id', 'created_at', 'size_bytes', 'created_by', 'description'],
  'guest backups': ['id', 'created_at', 'size_bytes', 'verified_at', 'target_name', 'description'],
  'host drain': ['name', 'state', 'to_host_id', 'message'],
  'host drain-status': ['name', 'state', 'to_host_id', 'message'],
}

/** Maximum number of columns of a table without default columns. */
const maxColumns = 9

/** Returns the columns of a list. @param wanted names from the command line, separated by commas */
export function columnsOf(rows: readonly Row[], command: string, wanted: string | undefined): string[] {
  if (wanted !== undefined) return checkedColumns(rows, wanted)
  const [noun = ''] = command.split(' ')
  const known = (defaults[command] ?? defaults[noun] ?? []).filter((column) => rows.some((row) => column in row))
  return known.length > 1 || rows.length === 0 ? [...known] : scalarColumns(rows).slice(0, maxColumns)
}

function scalarColumns(rows: readonly Row[]): string[] {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  return names.filter((name) => rows.every((row) => !isRecord(row[name])))
}

function checkedColumns(rows: readonly Row[], wanted: string): string[] {
  const columns = wanted.split(',').filter(Boolean)
  const unknown = columns.find((column) => rows.length > 0 && rows.every((row) => valueAt(row, column) === undefined))
  if (unknown === undefined) return columns
  throw usageError(`--columns: ${unknown} does not exist`, `columns: ${Object.keys(rows[0] ?? {}).join(', ')}`)
}
