import { ApiFailure } from '../api/failure.ts'
import { csvOf } from '../guests/csv.ts'

type Row = Readonly<Record<string, string | number | boolean>>

/** Reads lines of JSON documents. @throws {ApiFailure} `unreadable_answer`: a line is not JSON */
export function readLines(lines: string): Row[] {
  try {
    return lines
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Row)
  } catch (cause) {
    throw new ApiFailure('unreadable_answer', String(cause))
  }
}

/** Reads the body of an error. @returns an error with the code `unreadable_answer` if the body is not JSON */
export function readError(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch (cause) {
    return { code: 'unreadable_answer', message: String(cause) }
  }
}

/** Converts rows to CSV, with a column for each field that occurs in any of them. */
export function rowsAsCsv(rows: readonly Row[]): string {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  return rows.length === 0 ? '' : csvOf([fields, ...rows.map((row) => fields.map((field) => row[field] ?? ''))])
}
