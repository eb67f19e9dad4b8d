import { createHash } from 'node:crypto'
import { inSlices } from '../../shared/async/slices.js'
import { countHeader } from './list.js'
import { envelopeAround, etagOf } from './reply.js'
import type { Answer } from './route.js'

/** Maximum number of rows that are converted in one step. Longer lists are converted in slices. */
const fewRows = 100
const rowsPerPiece = 64
const longBody = 16_384

const [head, tail] = envelopeAround('\n')
  .split('\n')
  .map((part) => Buffer.from(part)) as [Buffer, Buffer]

/** Answers with a list of rows that can be converted to JSON quickly. @param total number of rows on all pages */
export async function jsonListAnswer<Item>(
  items: readonly Item[],
  jsonOf: (item: Item) => string,
  total: number,
): Promise<Answer<never>> {
  if (items.length > fewRows) return listOfPieces(await inSlices(writePieces(items, jsonOf)), total)
  const text = envelopeAround(`[${items.map(jsonOf).join(',')}]`)
  // Node sends a short string and the headers in one write. A long string becomes a buffer, to be encoded only once.
  const body = text.length > longBody ? Buffer.from(text) : text
  return { prepared: { body, etag: etagOf(body) }, headers: countHeader(total) }
}

/** Rows of a list in JSON, each preceded by a comma, and the digest of these bytes. */
export interface Piece {
  readonly bytes: Buffer
  readonly digest: string
}

export function makePiece(rows: readonly string[]): Piece {
  const bytes = Buffer.from(`,${rows.join(',')}`)
  return { bytes, digest: etagOf(bytes) }
}

/** Shorter bodies are sent in one piece. Joining their pieces takes less than 0.1 ms and saves system calls. */
const joinedBytes = 1_048_576

/** Answers with a list whose rows are in pieces. No piece is empty. The ETag is computed from the pieces' digests. */
export function listOfPieces(pieces: readonly Piece[], total: number): Answer<never> {
  const hash = createHash('sha1')
  for (const { digest } of pieces) hash.update(digest)
  const rows = pieces.map(({ bytes }, n) => (n === 0 ? bytes.subarray(1) : bytes))
  const body = [head, Buffer.from('['), ...rows, Buffer.from(']'), tail]
  const size = body.reduce((sum, piece) => sum + piece.length, 0)
  const prepared = {
    body: size < joinedBytes ? Buffer.concat(body) : body,
    etag: `"${hash.digest('base64url')}"`,
  }
  return { prepared, headers: countHeader(total) }
}

function* writePieces<Item>(items: readonly Item[], jsonOf: (item: Item) => string): Generator<void, Piece[]> {
  const pieces: Piece[] = []
  for (let at = 0; at < items.length; at += rowsPerPiece) {
    pieces.push(makePiece(items.slice(at, at + rowsPerPiece).map(jsonOf)))
    yield
  }
  return pieces
}
