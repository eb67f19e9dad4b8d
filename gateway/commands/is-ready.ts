import { BerthError } from '../../shared/errors.js'
import type { GatewayConfig } from '../config.js'
import { localUrl } from './local-url.js'

const timeoutMs = 10_000

/**
 * Asks the gateway on this host if it serves requests.
 * @throws {BerthError} `gateway_unreachable` if it does not answer, or if it is starting or stopping
 */
export async function checkReady(config: Pick<GatewayConfig, 'listen'>): Promise<void> {
  const url = localUrl(config)
  const unreachable = (reason: string, cause?: unknown): BerthError =>
    new BerthError('unavailable', 'gateway_unreachable', `the gateway ${reason} at ${url}`, { cause })
  const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(timeoutMs) }).catch((cause: unknown) => {
    throw unreachable('does not answer', cause)
  })
  // Other answers, such as a rejection by the access policy, also show that the gateway serves requests.
  if (answer.status === 503) throw unreachable('does not serve requests yet')
}
