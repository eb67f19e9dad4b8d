import { Buffer } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import type { Answer } from './route.js'

/** Number of rows in one piece of an answer. With pieces, no huge string is needed. */
const rowsPerPiece = 1000

export const linesType = 'application/x-ndjson; charset=utf-8'

/** Maximum number of rows in one export. Older rows can be requested with the parameter `to`. */
export const maxLines = 100_000

/** Answers with one JSON document per line, so that other programs can store the rows. */
export function linesAnswer(rows: readonly object[], total: number, filename: string): Answer<never> {
  const pieces: Buffer[] = []
  for (let at = 0; at < rows.length; at += rowsPerPiece) {
    const lines = rows.slice(at, at + rowsPerPiece).map((row) => `${JSON.stringify(row)}\n`)
    pieces.push(Buffer.from(lines.join('')))
  }
  return {
    headers: {
      'Content-Type': linesType,
      'Content-Disposition': `attachment; filename="${filename}"`,
      'X-Total-Count': String(total),
    },
    prepared: { body: pieces, etag: `"${randomUUID()}"` },
  }
}
