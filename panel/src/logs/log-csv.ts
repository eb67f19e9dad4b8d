import { csvOf } from '../guests/csv.ts'

/** Converts lines of JSON documents to CSV, with a column for each field that occurs in any of them. */
export function linesAsCsv(lines: string): string {
  const rows = lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, string | number | boolean>)
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  return rows.length === 0 ? '' : csvOf([fields, ...rows.map((row) => fields.map((field) => row[field] ?? ''))])
}
