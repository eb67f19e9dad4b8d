import { invalidField } from '../../shared/errors.js'
import { isPrivateAddress, isReachableName, parseHostName } from '../../shared/host-name.js'
import { isHostPort, splitHostPort } from '../../shared/join-token.js'

/** Public address of a host, and whether it was configured or derived. */
export interface PublicAddress {
  /** Public name or address of the host. "": not known. */
  readonly host: string
  /** `set`: configured by an administrator; `guess`: derived from reported addresses; `none`: not known. */
  readonly source: 'set' | 'guess' | 'none'
}

export interface AddressFacts {
  /** Address that an administrator has configured. "": no address is configured. */
  readonly set: string
  /** Public addresses that the agent reports, one of each family. "": the agent reports none. */
  readonly ipv4: string
  readonly ipv6: string
  /** host:port at which the gateway connects to the agent. */
  readonly agentAddress: string
}

/**
 * Returns the configured address. If it is not set, returns the first public address among the reported addresses and
 * the agent's address. If none is public, returns the first private one.
 */
export function planPublicAddress({ set, ipv4, ipv6, agentAddress }: AddressFacts): PublicAddress {
  if (set !== '') return { host: set, source: 'set' }
  const agent = isHostPort(agentAddress) ? splitHostPort(agentAddress).host : ''
  const candidates = [ipv4, ipv6, agent].flatMap((text) => parseHostName(text) ?? []).filter(isReachableName)
  const host = candidates.find((candidate) => !isPrivateAddress(candidate)) ?? candidates[0]
  return host === undefined ? { host: '', source: 'none' } : { host, source: 'guess' }
}

/** @returns the canonical address; "": Berth derives the address @throws {BerthError} `invalid_field` */
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
