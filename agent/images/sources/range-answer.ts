import type { OutboundAnswer } from '../../../shared/outbound-request.js'

/* This module reads facts about a file, or a range of it, from the headers of an HTTP response (RFC 9110). */

/** Returns an ETag or date that identifies a file's version. Ignores weak ETags, which If-Range forbids (RFC 9110). */
export function validatorOf({ headers }: OutboundAnswer): string {
  const { etag, 'last-modified': modified = '' } = headers
  return etag !== undefined && !etag.startsWith('W/') ? etag : modified
}

/** Returns the size of the whole file, or 0 if it is unknown. @param start position of the response's first byte */
export function totalOf(answer: OutboundAnswer, start: number): number {
  if (answer.status === 206) return rangeSize(answer)
  const length = Number(answer.headers['content-length'] ?? 0)
  return Number.isSafeInteger(length) && length > 0 ? start + length : 0
}

/** Returns the position of a range's first byte, or NaN if it is unknown. */
export function rangeStart({ headers }: OutboundAnswer): number {
  return Number(/^bytes (\d+)-/.exec(headers['content-range'] ?? '')?.[1] ?? NaN)
}

/** Returns the size of the whole file to which a range belongs, or 0 if it is unknown. */
export function rangeSize({ headers }: OutboundAnswer): number {
  return Number(/\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1] ?? 0)
}
