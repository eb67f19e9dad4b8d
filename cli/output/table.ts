import { cutTo, padTo, printable, widthOf } from './width.js'

export type Row = Readonly<Record<string, unknown>>

const gap = '  '
/** Smallest width to which a column is cut. */
const minWidth = 6

/**
 * Formats rows as an aligned table. If it is wider than the terminal, the widest columns are cut. If it is still too
 * wide, the last columns are left out.
 * @param width columns of the terminal; undefined: no limit
 */
export function formatTable(rows: readonly Row[], columns: readonly string[], width: number | undefined): string {
  const cells = [columns.map(titleOf), ...rows.map((row) => columns.map((column) => cellOf(valueAt(row, column))))]
  const widths = fitWidths(
    columns.map((_, index) => Math.max(...cells.map((line) => widthOf(line[index]!)))),
    width,
  )
  return cells.map((line) => formatLine(line, widths)).join('')
}

function formatLine(line: readonly string[], widths: readonly number[]): string {
  const cells = widths.map((width, index) => padTo(cutTo(line[index]!, width), width))
  return `${cells.join(gap).trimEnd()}\n`
}

/** Returns the widths of the columns that fit. */
export function fitWidths(natural: readonly number[], limit: number | undefined): number[] {
  const widths = [...natural]
  const total = (): number => widths.reduce((sum, width) => sum + width + gap.length, -gap.length)
  while (limit !== undefined && widths.length > 1 && total() > limit) {
    const widest = Math.max(...widths)
    if (widest > minWidth) widths[widths.lastIndexOf(widest)] = widest - 1
    else widths.pop()
  }
  return widths
}

const titleOf = (column: string): string => column.replaceAll('_', ' ').toUpperCase()

/** Returns the value of a field. A dot selects a field of an inner object: `traffic.used_bytes`. */
export function valueAt(row: Row, column: string): unknown {
  if (column in row) return row[column]
  return column.split('.').reduce<unknown>((value, part) => (isRecord(value) ? value[part] : undefined), row)
}

export const isRecord = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns a value as one line of text. */
export function cellOf(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value) && value.length === 0) return '-'
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object')) return printable(value.join(','))
  return printable(typeof value === 'string' ? value : JSON.stringify(value))
}
