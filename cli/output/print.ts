import { usageError } from '../errors.js'
import { columnsOf } from './columns.js'
import { cellOf, formatTable, isRecord, valueAt, type Row } from './table.js'
import { withoutControls } from './controls.js'
import { filterWithJq } from './jq.js'
import { padTo } from './width.js'

/* This module formats the results of commands. */

export const outputForms = ['table', 'json', 'yaml', 'csv'] as const
export type OutputForm = (typeof outputForms)[number]

export interface OutputOptions {
  readonly form: OutputForm
  /** True to print only ids. */
  readonly isQuiet: boolean
  /** Names of columns, separated by commas; undefined: the default columns. */
  readonly columns: string | undefined
  readonly width: number | undefined
  /** Filter of the program jq for the result; undefined: the complete result. */
  readonly jq?: string | undefined
  /** Noun and verb of the command, which decide the default columns. */
  readonly command: string
}

/** @param message text of the answer; printed if there is no value */
export async function formatResult(value: unknown, message: string, options: OutputOptions): Promise<string> {
  if (options.isQuiet) return idsOf(value)
  const shown = options.columns === undefined ? value : selectColumns(value, options)
  if (options.form === 'json') return filterJson(formatJson(shown ?? { message }), options.jq)
  if (options.form === 'yaml') return escapeControls((await import('../yaml.js')).stringify(shown ?? { message }))
  if (options.form === 'csv') return formatCsv(value, options)
  return value === undefined || value === null ? `${cellOf(message || 'done')}\n` : formatText(value, options)
}

/** @param jq filter of the program jq; undefined: no filter */
export const filterJson = (json: string, jq: string | undefined): string =>
  jq === undefined ? `${json}\n` : filterWithJq(json, jq)

/** Formats a value as JSON. Escapes the control characters that JSON allows, because they could change the terminal. */
export function formatJson(value: unknown, indent = 2): string {
  return escapeControls(JSON.stringify(value, undefined, indent))
}

/** Escapes U+007F to U+009F. YAML and JSON already escape the control characters below U+0020. */
function escapeControls(text: string): string {
  return text.replace(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)
}

function selectColumns(value: unknown, { command, columns }: OutputOptions): unknown {
  const select = (row: Row): Row =>
    Object.fromEntries(columnsOf([row], command, columns).map((column) => [column, valueAt(row, column)]))
  if (isRecord(value)) return select(value)
  return rowsOf(value)?.map(select) ?? value
}

const idFields = ['id', 'task_id', 'uuid', 'template_id', 'name', 'username']

function idsOf(value: unknown): string {
  const rows = Array.isArray(value) ? (value as unknown[]) : [value]
  const ids = rows.map((row) => (isRecord(row) ? row[idFields.find((field) => field in row) ?? ''] : row))
  return ids
    .filter((id) => id !== undefined && id !== null)
    .map((id) => `${cellOf(id)}\n`)
    .join('')
}

/** Returns the rows of a list of objects; undefined if the value is not such a list. */
function rowsOf(value: unknown): Row[] | undefined {
  return Array.isArray(value) && value.every(isRecord) ? value : undefined
}

function formatText(value: unknown, options: OutputOptions): string {
  const rows = rowsOf(value)
  if (rows) return formatRows(rows, options)
  if (Array.isArray(value)) return value.map((one) => `${cellOf(one)}\n`).join('')
  return isRecord(value) ? formatRecord(value, options) : `${cellOf(value)}\n`
}

function formatRows(rows: readonly Row[], { command, columns, width }: OutputOptions): string {
  if (rows.length === 0 && columns === undefined && columnsOf(rows, command, undefined).length === 0) return ''
  return formatTable(rows, columnsOf(rows, command, columns), width)
}

/** Formats an object: its simple fields first, then a table for each list of objects in it. */
function formatRecord(record: Row, options: OutputOptions): string {
  const fields = options.columns === undefined ? flatten(record) : (selectColumns(record, options) as Row)
  const lists = Object.entries(fields).filter(([, value]) => isTable(value))
  const simple = Object.entries(fields).filter(([, value]) => !isTable(value))
  const width = Math.max(0, ...simple.map(([name]) => name.length))
  const lines = simple.map(([name, value]) => `${padTo(name, width)}  ${cellOf(value)}\n`)
  const tables = lists.map(
    ([name, rows]) => `\n${name}:\n${formatRows(rowsOf(rows)!, { ...options, columns: undefined })}`,
  )
  return [...lines, ...tables].join('')
}

const isTable = (value: unknown): boolean => Array.isArray(value) && value.length > 0 && value.every(isRecord)

function flatten(record: Row, prefix = ''): Row {
  const fields = Object.entries(record).map(([name, value]): Row =>
    isRecord(value) ? flatten(value, `${prefix}${name}.`) : { [`${prefix}${name}`]: value },
  )
  return Object.assign({}, ...fields) as Row
}

function formatCsv(value: unknown, { command, columns }: OutputOptions): string {
  const rows = rowsOf(value) ?? (isRecord(value) ? [value] : undefined)
  if (rows === undefined) throw usageError('-o csv: the result is not a table', 'use -o json')
  const names =
    columns === undefined ? [...new Set(rows.flatMap((row) => Object.keys(row)))] : columnsOf(rows, command, columns)
  const lines = [names, ...rows.map((row) => names.map((name) => csvValue(valueAt(row, name))))]
  return lines.map((line) => `${line.map(csvCell).join(',')}\r\n`).join('')
}

function csvValue(value: unknown): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return withoutControls(text)
}

/** Quotes a cell as RFC 4180 demands. */
const csvCell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
