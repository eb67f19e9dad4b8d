/** The body of a response. A long body is a list of pieces, so that the pieces need not be joined. */
export type ReplyBody = Buffer | string | readonly Buffer[]

export function bodyText(body: ReplyBody): string {
  return isPieces(body) ? Buffer.concat(body).toString() : body.toString()
}

export function bodyLength(body: ReplyBody): number {
  if (isPieces(body)) return body.reduce((sum, piece) => sum + piece.length, 0)
  return Buffer.byteLength(body)
}

export function isPieces(body: ReplyBody): body is readonly Buffer[] {
  return Array.isArray(body)
}
