import type { IncomingMessage } from 'node:http'
import { BerthError } from '../../shared/errors.js'

/**
 * Rejects requests with several Host headers, which a proxy could interpret differently (RFC 9112, 3.2).
 * @throws {BerthError} `invalid_request`
 */
export function checkHostHeader({ httpVersion, headers, rawHeaders }: IncomingMessage): void {
  if (httpVersion === '1.1' && headers.host === undefined)
    throw new BerthError('invalid', 'invalid_request', 'the request has no Host header')
  if (hasSeveralHosts(rawHeaders))
    throw new BerthError('invalid', 'invalid_request', 'the request has more than one Host header')
}

/** @param rawHeaders alternating names and values */
function hasSeveralHosts(rawHeaders: readonly string[]): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === 'host') count++
  return count > 1
}
