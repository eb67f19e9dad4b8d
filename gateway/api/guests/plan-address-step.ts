import { parseAddress } from '../../../shared/addresses.js'
import { isPrivateAddress, isReachableName } from '../../../shared/host-name.js'

/** The address that customers see for a guest, and facts that show whether the address leads to the host. */
export interface ShownAddress {
  /** Address of the guest or of its mapping. "": the host's public address is shown. */
  readonly own: string
  /** Public address of the host. "": not known. */
  readonly host: string
  /** Addresses to which the public address of the host resolves, if it is a name. */
  readonly resolved: readonly string[]
  /** Addresses of all interfaces of the host. */
  readonly hostAddresses: readonly string[]
  /** Public addresses of other hosts. */
  readonly otherHosts: readonly string[]
}

export const addressCodes = {
  public_address_missing: 'the public address of the host is not set',
  public_address_unresolved: 'the public name of the host does not resolve to an address',
  public_address_loopback: 'the address is a loopback address, which leads to the computer of the user who connects',
  public_address_elsewhere: 'the public address of the host does not belong to the host',
  public_address_unverified: 'the host has only private addresses, so its public address cannot be verified',
} as const
export type AddressCode = keyof typeof addressCodes

export interface AddressVerdict {
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly code: AddressCode | ''
}

const ok: AddressVerdict = { state: 'ok', code: '' }
const failed = (code: AddressCode): AddressVerdict => ({ state: 'failed', code })

/** Checks if the address that customers see leads to the host, as far as the gateway can know. */
export function planAddressStep(shown: ShownAddress): AddressVerdict {
  const { own, host, resolved, hostAddresses, otherHosts } = shown
  // `own` needs no look-up, because the agent has checked that its host has this address.
  if (own !== '') return isReachableName(own) ? ok : failed('public_address_loopback')
  if (host === '') return failed('public_address_missing')
  const addresses = parseAddress(host) ? [host] : resolved.flatMap((text) => parseAddress(text)?.text ?? [])
  if (addresses.length === 0) return failed('public_address_unresolved')
  if (!addresses.every(isReachableName)) return failed('public_address_loopback')
  if (addresses.some((address) => hostAddresses.includes(address))) return ok
  if (addresses.some((address) => otherHosts.includes(address))) return failed('public_address_elsewhere')
  const family = parseAddress(addresses[0]!)?.family
  const hasPublic = hostAddresses.some(
    (address) => parseAddress(address)?.family === family && !isPrivateAddress(address),
  )
  return hasPublic ? failed('public_address_elsewhere') : { state: 'skipped', code: 'public_address_unverified' }
}
