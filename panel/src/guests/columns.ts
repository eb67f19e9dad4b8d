import type { Key } from '../i18n/text.svelte.ts'
import type { SortKey } from './filter.ts'

interface Column {
  readonly label: Key
  /** Width in the syntax of CSS grids. */
  readonly width: string
  readonly sort?: SortKey
  /** True if the column shows the usage of guests. Usage is read only for the visible rows. */
  readonly isUsage?: boolean
}

/** Columns of the guest list that a user can show or hide, in display order. The name and buttons are always shown. */
export const columns = {
  status: { label: 'guest.status', width: '104px', sort: 'status' },
  cpu: { label: 'usage.cpu', width: 'minmax(54px, 0.5fr)', isUsage: true },
  memory: { label: 'usage.memory', width: 'minmax(58px, 0.5fr)', isUsage: true },
  disk: { label: 'usage.disk', width: 'minmax(54px, 0.5fr)', isUsage: true },
  traffic: { label: 'usage.traffic', width: 'minmax(72px, 0.6fr)', isUsage: true },
  owner: { label: 'guest.owner', width: 'minmax(80px, 0.9fr)', sort: 'owner' },
  type: { label: 'guest.type', width: '54px', sort: 'type' },
  address: { label: 'guest.address', width: 'minmax(112px, 1fr)', sort: 'address' },
  image: { label: 'guest.image', width: 'minmax(90px, 0.9fr)', sort: 'image' },
  host: { label: 'guest.host', width: 'minmax(80px, 0.8fr)', sort: 'host' },
  vcpu: { label: 'guests.column.vcpu', width: '58px', sort: 'vcpu' },
  memorySize: { label: 'guests.column.memorySize', width: '100px', sort: 'memory' },
  diskSize: { label: 'guests.column.diskSize', width: '82px', sort: 'disk' },
  created: { label: 'guest.created', width: '136px', sort: 'created' },
  expires: { label: 'guest.expires', width: '136px', sort: 'expires_at' },
} as const satisfies Record<string, Column>

export type ColumnName = keyof typeof columns
export const columnNames = Object.keys(columns) as ColumnName[]
/** Columns by which the list can be sorted, in display order. */
export const sortableColumns = Object.values(columns).flatMap((column) => ('sort' in column ? [column] : []))

const basic: readonly ColumnName[] = ['status', 'cpu', 'memory', 'disk', 'address', 'host', 'expires']
const wide: readonly ColumnName[] = [...basic, 'traffic', 'owner', 'type', 'image']

/** Returns the columns that are shown by default. @param width width of the window in pixels */
export function defaultColumns(width: number): ColumnName[] {
  const shown = width >= 1600 ? wide : basic
  return columnNames.filter((name) => shown.includes(name))
}

/** Parses stored names of columns. @returns undefined if nothing valid is stored */
export function parseColumns(stored: string | null): ColumnName[] | undefined {
  if (stored === null) return undefined
  const names = stored.split(',')
  const known = columnNames.filter((name) => names.includes(name))
  return known.length > 0 || stored === '' ? known : undefined
}

/** Returns the CSS grid columns of a row: checkbox, name, the given columns, and buttons. */
export function gridOf(names: readonly ColumnName[]): string {
  return ['22px', 'minmax(190px, 2fr)', ...names.map((name) => columns[name].width), '70px'].join(' ')
}
