import { containsCidr } from 'cidr-tools'
import { parseAddress } from './addresses.js'

const label = '(?!-)[a-z0-9-]{1,63}(?<!-)'
const hostName = new RegExp(`^(?=.{1,253}$)${label}(\\.${label})*$`)

/**
 * Parses a host name or an IP address; an IPv6 address can have brackets.
 * @returns names in lower case and ASCII, addresses as RFC 5952 writes them; undefined if the text is neither
 */
export function parseHostName(text: string): string | undefined {
  const bare = text.trim().replace(/^\[(.+)\]$/, '$1')
  const address = parseAddress(bare)
  if (address !== undefined) return address.text
  const name = toAscii(bare.replace(/\.$/, ''))
  // With a numeric last label, the text would be a malformed address (RFC 1123 2.1).
  return hostName.test(name) && !/(^|\.)\d+$/.test(name) ? name : undefined
}

function toAscii(name: string): string {
  const url = `http://${name}`
  return /^[^/?#@:\s\\%]+$/.test(name) && URL.canParse(url) ? new URL(url).hostname : ''
}

/** Addresses that never lead to another computer: loopback, link-local, multicast and unspecified ones. */
const unreachable = {
  ipv4: ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'],
  ipv6: ['::/127', '::ffff:0:0/96', 'fe80::/10', 'ff00::/8'],
}
const privateRanges = {
  ipv4: ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16'],
  ipv6: ['fc00::/7'],
}

/** True if this canonical name or address can lead to another computer. */
export function isReachableName(host: string): boolean {
  const address = parseAddress(host)
  if (address === undefined) return host !== '' && !/(^|\.)localhost$/.test(host)
  return !containsCidr(unreachable[address.family], address.text)
}

/** True if the address is private: it is valid only within a local network. */
export function isPrivateAddress(host: string): boolean {
  const address = parseAddress(host)
  return address !== undefined && containsCidr(privateRanges[address.family], address.text)
}
