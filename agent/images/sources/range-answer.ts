import type { OutboundAnswer } from '../../../shared/outbound-request.js'

/* Facts about a file, or about a range of it, from the headers of an answer (RFC 9110). */

/** Uses only strong validators: RFC 9110, 13.1.5. */
export function validatorOf({ headers }: OutboundAnswer): string {
  const { etag, 'last-modified': modified = '' } = headers
  return etag !== undefined && !etag.startsWith('W/') ? etag : modified
}

/** Size of the whole file; 0: unknown. @param start position of the answer's first byte */
export function totalOf(answer: OutboundAnswer, start: number): number {
  if (answer.status === 206) return rangeSize(answer)
  const length = Number(answer.headers['content-length'] ?? 0)
  return Number.isSafeInteger(length) && length > 0 ? start + length : 0
}

/** Position of the first byte of a range; NaN: unknown. */
export function rangeStart({ headers }: OutboundAnswer): number {
  return Number(/^bytes (\d+)-/.exec(headers['content-range'] ?? '')?.[1] ?? NaN)
}

/** Size of the whole file that a range belongs to; 0: unknown. */
export function rangeSize({ headers }: OutboundAnswer): number {
  return Number(/\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1] ?? 0)
}
