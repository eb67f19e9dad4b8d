import { isIP } from 'node:net'
import { containsCidr } from 'cidr-tools'
import { BerthError } from './errors.js'

/** Permitted targets of requests to URLs that users write, such as image and webhook URLs. */
export interface TargetPolicy {
  /** Permits http in addition to https. */
  readonly allowHttp: boolean
  /** Addresses and CIDRs that are permitted, even if they are private, special or assigned to this computer. */
  readonly allowedTargets: readonly string[]
  /** Name of the setting that contains `allowedTargets`, for error messages. */
  readonly setting: string
}

/** IPv4 networks without public hosts (IANA's registry of special-purpose addresses), and Azure's platform address. */
const refusedIpv4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
  '168.63.129.16/32',
]
/** Includes 6to4 and Teredo (2002::/16, 2001::/23), because their addresses lead to the embedded IPv4 address. */
const refusedIpv6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']
const publicIpv6 = '2000::/3'

const longestUrl = 2000

/**
 * Parses a URL from a user and checks everything that needs no name lookup.
 * @param own addresses of this computer; default: they are not checked
 * @throws {BerthError} `invalid_field` for the field `url`
 */
export function parseTargetUrl(text: string, policy: TargetPolicy, own: readonly string[] = []): URL {
  const url = text.length <= longestUrl ? tryParse(text) : undefined
  if (!url) throw refused('url: must be a URL of at most 2000 characters')
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && policy.allowHttp))
    throw refused(`url: only ${policy.allowHttp ? 'http or https' : 'https'} is allowed`)
  if (url.username !== '' || url.password !== '') throw refused('url: must not contain a user name or password')
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0) checkTarget(literal, policy, own)
  return url
}

/**
 * Checks an address against the policy.
 * @param address the result of a name lookup, or the address within a URL
 * @param own addresses of this computer
 * @throws {BerthError} `invalid_field` for the field `url`
 */
export function checkTarget(address: string, policy: TargetPolicy, own: readonly string[]): void {
  const allowed = policy.allowedTargets.filter((entry) => sameFamily(entry, address))
  if (allowed.length > 0 && containsCidr(allowed, address)) return
  if (own.includes(address) || !isPublic(address))
    throw refused(`url: ${address} is not a public address: an administrator can allow it in ${policy.setting}`)
}

function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !containsCidr(refusedIpv4, address)
  return containsCidr(publicIpv6, address) && !containsCidr(refusedIpv6, address)
}

function sameFamily(entry: string, address: string): boolean {
  return isIP(entry.split('/')[0] ?? '') === isIP(address)
}

function tryParse(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}

function refused(message: string): BerthError {
  return new BerthError('invalid', 'invalid_field', message, { field: 'url' })
}
