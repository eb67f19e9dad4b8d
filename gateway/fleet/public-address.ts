import { invalidField } from '../../shared/errors.js'
import { isPrivateAddress, isReachableName, parseHostName } from '../../shared/host-name.js'
import { isHostPort, splitHostPort } from '../../shared/join-token.js'

/** Public address of a host, and its source. */
export interface PublicAddress {
  /** A name or an address; "": not known. */
  readonly host: string
  /** `set` by an administrator, or a guess. */
  readonly source: 'set' | 'guess' | 'none'
}

export interface AddressFacts {
  /** "": no administrator has set it. */
  readonly set: string
  /** Addresses that the agent reports; "": none. */
  readonly ipv4: string
  readonly ipv6: string
  /** host:port at which the gateway reaches the agent. */
  readonly agentAddress: string
}

/** Prefers the configured address, then a public address that the agent reports, then the address of the agent. */
export function planPublicAddress({ set, ipv4, ipv6, agentAddress }: AddressFacts): PublicAddress {
  if (set !== '') return { host: set, source: 'set' }
  const agent = isHostPort(agentAddress) ? splitHostPort(agentAddress).host : ''
  const candidates = [ipv4, ipv6, agent].flatMap((text) => parseHostName(text) ?? []).filter(isReachableName)
  const host = candidates.find((candidate) => !isPrivateAddress(candidate)) ?? candidates[0]
  return host === undefined ? { host: '', source: 'none' } : { host, source: 'guess' }
}

/**
 * @returns canonical; "": not set, so Berth derives it
 * @throws {BerthError} `invalid_field`
 */
export function parsePublicAddress(text: string): string {
  if (text.trim() === '') return ''
  const host = parseHostName(text)
  if (host === undefined)
    throw invalidField(
      'public_address',
      'public_address: must be a DNS name or an IP address, for example "node1.example.com"',
    )
  if (!isReachableName(host))
    throw invalidField(
      'public_address',
      `public_address: ${host} cannot be reached from other machines; enter an address that customers can reach`,
    )
  return host
}
