import { Buffer } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import type { Answer } from './route.js'

/** Rows per piece of an answer, so that no huge text is made. */
const rowsPerPiece = 1000

export const linesType = 'application/x-ndjson; charset=utf-8'

/** Most rows of one export; older ones are requested with `to`. */
export const maxLines = 100_000

/** Answers with one JSON document per line, for storage by other programs. */
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
