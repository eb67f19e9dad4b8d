import { parseAddress } from '../../../../shared/addresses.js'
import { BerthError } from '../../../../shared/errors.js'
import type { GuestNetwork, NatMapping } from '../../contract.js'
import { planFirewall, type FirewallChains } from '../firewall/plan-firewall.js'
import type { GuestSet } from '../ruleset/guest-sets.js'
import { formatIpv4, parseIpv4 } from '../../subnet.js'

/** Set and key of an element as `nft -n` prints them, for example `ports 6 . 20001`. */
export type ElementId = `${GuestSet} ${string}`

/** Value of each element as nft prints it. '' in a set without values. */
export type Elements = ReadonlyMap<ElementId, string>

export interface GuestPlan {
  readonly elements: Elements
  /** Undefined if the firewall is off or not set. */
  readonly firewall: FirewallChains | undefined
}

/**
 * Plans everything that nft stores for one guest.
 * @throws {BerthError} `internal_error` if a value has unexpected characters, which must not reach nft
 */
export function planGuest(guest: GuestNetwork): GuestPlan {
  checkGuest(guest)
  const firewall = planFirewall(guest.device, guest.firewall)
  const addresses = [...planIpv4(guest), ...guest.ipv6Addresses.flatMap((ipv6) => planIpv6(guest, ipv6))]
  const elements = new Map([...addresses, ...planSolicitor(guest), ...(firewall ? planDispatch(guest) : [])])
  for (const mapping of guest.portMappings) planMapping(guest, mapping, elements)
  return { elements, firewall }
}

type Entry = [id: ElementId, value: string]

/** Plans IPv4. A guest that is cut off has no allowed source address, so the bridge drops all its frames. */
function planIpv4({ device, mac, ipv4, publicIpv4s, sendsMail, cut = false }: GuestNetwork): Entry[] {
  const [first] = publicIpv4s
  return [
    ...(cut ? [] : [[`guests "${device}" . ${mac} . ${ipv4}`, ''] satisfies Entry]),
    [`owners ${ipv4}`, numberOf(ipv4)],
    ...countersOf({ ipv4, mac }).map((id): Entry => [id, '']),
    [`self ${ipv4} . ${ipv4}`, ''],
    ...(sendsMail ? [[`mailers ${mac}`, ''] satisfies Entry] : []),
    ...publicIpv4s.map((address): Entry => [`public_in ${address}`, ipv4]),
    ...(first === undefined ? [] : [[`public_out ${ipv4}`, first] satisfies Entry]),
  ]
}

/** Plans the nft elements of one of a guest's IPv6 addresses. The guest's port mappings lead to the address `first`. */
function planIpv6(
  { device, mac, ipv4, ipv6Addresses: [first = ''], cut = false }: GuestNetwork,
  ipv6: string,
): Entry[] {
  return [
    [`owners6 ${ipv6}`, numberOf(ipv4)],
    ...(cut ? [] : [[`guests6 "${device}" . ${mac} . ${ipv6}`, ''] satisfies Entry]),
    [`self6 ${ipv6} . ${first}`, ''],
  ]
}

/** Returns a guest's number: its private IPv4 address, written as nft prints a tc(8) handle. */
function numberOf(ipv4: string): string {
  return formatNumber(parseIpv4(ipv4) ?? 0)
}

/** Formats 32 bits as nft prints a tc(8) handle: two hexadecimal halves, separated by a colon. */
export function formatNumber(number: number): string {
  return [number >>> 16, number & 0xffff].map((half) => half.toString(16)).join(':')
}

/** Returns the private IPv4 address for a guest's number. @param text two hexadecimal halves, separated by a colon */
export function parseNumber(text: string): string {
  const [high = 0, low = 0] = text.split(':').map((half) => parseInt(half, 16))
  return formatIpv4(high * 0x10000 + low)
}

/** Returns the elements that count the bytes that a guest receives and sends. */
export function countersOf({ ipv4, mac }: Pick<GuestNetwork, 'ipv4' | 'mac'>): [ElementId, ElementId] {
  return [`received ${numberOf(ipv4)}`, `sent ${mac}`]
}

/**
 * Plans what a guest can send for neighbour discovery. A guest with IPv6 addresses can also use its link-local address
 * as a source, and `::` until it has configured an address. A guest without IPv6 addresses cannot send IPv6.
 */
function planSolicitor({ device, mac, ipv6Addresses, cut = false }: GuestNetwork): Entry[] {
  if (cut || ipv6Addresses.length === 0) return []
  return [
    [`guests6 "${device}" . ${mac} . ::`, ''],
    [`guests6 "${device}" . ${mac} . ${linkLocalOf(mac)}`, ''],
    [`solicitors "${device}" . 0x${BigInt(`0x${mac.replaceAll(':', '')}`).toString(16)}`, ''],
  ]
}

/** Returns the link-local address that a kernel derives from the MAC (RFC 4291, appendix A). */
function linkLocalOf(mac: string): string {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mac.split(':').map((byte) => parseInt(byte, 16))
  const groups = [((a ^ 2) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f]
  return parseAddress(`fe80::${groups.map((group) => group.toString(16)).join(':')}`)!.text
}

function planDispatch({ device, ipv4, ipv6Addresses }: GuestNetwork): Entry[] {
  const [toIn, toOut] = [`jump in_${device}`, `jump out_${device}`]
  return [
    [`firewall_in ${ipv4}`, toIn],
    [`firewall_out ${ipv4}`, toOut],
    ...ipv6Addresses.flatMap((ipv6): Entry[] => [
      [`firewall_in6 ${ipv6}`, toIn],
      [`firewall_out6 ${ipv6}`, toOut],
    ]),
  ]
}

const protocolNumbers = { tcp: 6, udp: 17 } as const

/** Adds a mapping's elements to `elements` in place. Copies would be slow, because a guest can have 1,000 mappings. */
function planMapping(guest: GuestNetwork, mapping: NatMapping, elements: Map<ElementId, string>): void {
  const { hostIp } = mapping
  const [ipv6] = guest.ipv6Addresses
  if (!hostIp.includes(':')) planFamily({ target: guest.ipv4, suffix: '' }, mapping, elements)
  if (ipv6 !== undefined && !hostIp.includes('.')) planFamily({ target: ipv6, suffix: '6' }, mapping, elements)
}

function planFamily(
  { target, suffix }: { target: string; suffix: '' | '6' },
  mapping: NatMapping,
  elements: Map<ElementId, string>,
): void {
  const { protocol, hostIp, hostPort, hostPortEnd, containerPort } = mapping
  const number = protocolNumbers[protocol]
  if (hostPortEnd > hostPort && hostPort === containerPort) {
    const at = hostIp === '' ? (suffix === '6' ? '::/0' : '0.0.0.0/0') : hostIp
    elements.set(`port_ranges${suffix} ${at} . ${number} . ${hostPort}-${hostPortEnd}`, target)
    return
  }
  const key = hostIp === '' ? (`ports${suffix} ` as const) : (`host_ports${suffix} ${hostIp} . ` as const)
  for (let port = hostPort; port <= hostPortEnd; port++)
    elements.set(`${key}${number} . ${port}`, `${target} . ${containerPort + port - hostPort}`)
}

function checkGuest(guest: GuestNetwork): void {
  const { device, mac, ipv4, portMappings, publicIpv4s, ipv6Addresses } = guest
  const valid =
    /^[a-z]{1,4}\d{1,10}$/.test(device) &&
    /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(mac) &&
    [ipv4, ...publicIpv4s].every((address) => parseIpv4(address) !== undefined) &&
    ipv6Addresses.every(isPlainIpv6) &&
    portMappings.every(isMapping)
  if (!valid)
    throw new BerthError('internal', 'internal_error', `the network settings of the guest at ${device} are not valid`)
}

function isMapping({ protocol, hostIp, hostPort, hostPortEnd, containerPort }: NatMapping): boolean {
  const isPort = (port: number): boolean => Number.isInteger(port) && port > 0 && port < 65536
  return (
    Object.hasOwn(protocolNumbers, protocol) &&
    (hostIp === '' || parseIpv4(hostIp) !== undefined || isPlainIpv6(hostIp)) &&
    [hostPort, hostPortEnd, containerPort, containerPort + hostPortEnd - hostPort].every(isPort) &&
    hostPortEnd >= hostPort
  )
}

/** True if the address is written as nft prints it. */
function isPlainIpv6(address: string): boolean {
  return /^[0-9a-f:]+$/.test(address) && parseAddress(address)?.text === address
}
