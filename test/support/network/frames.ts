import { parseIpv4 } from '../../../agent/network/subnet.js'

/** Makes Ethernet frames in hexadecimal, with a marker that `sniff` of packets.py recognizes. */

export interface Ethernet {
  readonly from: string
  readonly to: string
}

const broadcast = 'ff:ff:ff:ff:ff:ff'

export function ipv4Frame(link: Ethernet, ip: { from: string; to: string; sport?: number }, marker: string): string {
  const payload = marked(marker)
  const udp = Buffer.concat([u16(ip.sport ?? 4000, 9, 8 + payload.length, 0), payload])
  return frame(link, 0x0800, ipv4Packet(ip, 17, udp))
}

export interface Arp {
  readonly mac: string
  readonly ipv4: string
  readonly target: string
  readonly operation?: number
}

export function arpFrame(from: string, arp: Arp, marker: string): string {
  const body = Buffer.concat([
    u16(1, 0x0800, 0x0604, arp.operation ?? 1),
    mac(arp.mac),
    address(arp.ipv4),
    Buffer.alloc(6),
    address(arp.target),
    marked(marker),
  ])
  return frame({ from, to: broadcast }, 0x0806, body)
}

export interface Ipv6 {
  readonly from: string
  readonly to: string
  readonly hopLimit?: number
}

export function udp6Frame(
  link: Ethernet,
  ip: Ipv6,
  ports: readonly [from: number, to: number],
  marker: string,
): string {
  const payload = marked(marker)
  const udp = Buffer.concat([u16(...ports, 8 + payload.length, 0), payload])
  return ipv6Frame(link, ip, 17, udp)
}

/** Makes a message of neighbour discovery (RFC 4861) with type, target (if it has one), options and marker. */
export function discoveryFrame(
  link: Ethernet,
  ip: Ipv6,
  message: { type: number; target?: string; linkAddress?: string },
  marker = '',
): string {
  const { type, target, linkAddress } = message
  const option = type === 136 ? 2 : 1
  const body = Buffer.concat([
    Buffer.from([type, 0, 0, 0, 0, 0, 0, 0]),
    ...(type === 134 ? [Buffer.alloc(8)] : []),
    ...(target === undefined ? [] : [address6(target)]),
    ...(linkAddress === undefined ? [] : [Buffer.from([option, 1]), mac(linkAddress)]),
    ...(marker === '' ? [] : [marked(marker)]),
  ])
  return ipv6Frame(link, { hopLimit: 255, ...ip }, 58, body)
}

/** The datagram that an ICMP error is about. The error quotes the first bytes of the datagram. */
export interface QuotedDatagram {
  readonly from: string
  readonly to: string
  readonly ports: readonly [from: number, to: number]
  /** If set, the error quotes an echo reply with this identifier instead of the datagram. */
  readonly echo?: number
}

export interface IcmpError {
  readonly type: number
  readonly code: number
  /** Second field of the ICMP header: the MTU ("fragmentation needed", "packet too big"), or the new IPv4 router. */
  readonly rest?: number
}

/** Makes an ICMP error about a packet (RFC 792, RFC 4443). The marker for tests is at the end of the quoted packet. */
export function icmpErrorFrame(
  link: Ethernet,
  ip: { from: string; to: string },
  { error: { type, code, rest = 0 }, quoted }: { error: IcmpError; quoted: QuotedDatagram },
  marker: string,
): string {
  const is6 = ip.from.includes(':')
  const inner = quotedPacket(quoted, is6, marker)
  const body = Buffer.concat([Buffer.from([type, code, 0, 0]), u16(rest >>> 16, rest & 0xffff), inner])
  if (is6) return ipv6Frame(link, ip, 58, body)
  body.writeUInt16BE(checksum(body), 2)
  return frame(link, 0x0800, ipv4Packet(ip, 1, body))
}

function quotedPacket({ from, to, ports, echo }: QuotedDatagram, is6: boolean, marker: string): Buffer {
  const payload = marked(marker)
  const body = Buffer.concat([
    echo === undefined
      ? u16(...ports, 8 + payload.length, 0)
      : Buffer.concat([Buffer.from([is6 ? 129 : 0, 0, 0, 0]), u16(echo, 1)]),
    payload,
  ])
  const protocol = echo === undefined ? 17 : is6 ? 58 : 1
  if (!is6) return ipv4Packet({ from, to }, protocol, body)
  const head = Buffer.concat([u16(0x6000, 0, body.length), Buffer.from([protocol, 64])])
  return Buffer.concat([head, address6(from), address6(to), body])
}

function ipv4Packet(ip: { from: string; to: string }, protocol: number, body: Buffer): Buffer {
  const head = Buffer.concat([
    Buffer.from([0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0]),
    address(ip.from),
    address(ip.to),
  ])
  head.writeUInt16BE(head.length + body.length, 2)
  head.writeUInt16BE(checksum(head), 10)
  return Buffer.concat([head, body])
}

/** Makes an IPv6 packet with the transport checksum, which the kernel requires for UDP and ICMPv6. */
function ipv6Frame(link: Ethernet, ip: Ipv6, protocol: number, body: Buffer): string {
  const addresses = Buffer.concat([address6(ip.from), address6(ip.to)])
  const pseudo = Buffer.concat([addresses, u16(0, body.length, 0, protocol), body])
  body.writeUInt16BE(checksum(pseudo), protocol === 58 ? 2 : 6)
  const head = Buffer.concat([u16(0x6000, 0, body.length), Buffer.from([protocol, ip.hopLimit ?? 64])])
  return frame(link, 0x86dd, Buffer.concat([head, addresses, body]))
}

function address6(text: string): Buffer {
  const [head = '', tail = ''] = text.split('::')
  const groups = (part: string): number[] => (part === '' ? [] : part.split(':').map((group) => parseInt(group, 16)))
  const [first, last] = [groups(head), groups(tail)]
  return u16(...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last)
}

export function rawFrame(link: Ethernet, etherType: number, marker: string, lead = ''): string {
  return frame(link, etherType, Buffer.concat([Buffer.from(lead, 'hex'), marked(marker)]))
}

/** Adds a VLAN tag to a frame. */
export function tagged(hex: string, tagType = 0x8100, vid = 5): string {
  return hex.slice(0, 24) + u16(tagType, vid).toString('hex') + hex.slice(24)
}

function frame(link: Ethernet, etherType: number, body: Buffer): string {
  return Buffer.concat([mac(link.to), mac(link.from), u16(etherType), body]).toString('hex')
}

const marked = (marker: string): Buffer => Buffer.from(`<<${marker}>>`.padEnd(46, '.'))
const mac = (text: string): Buffer => Buffer.from(text.replaceAll(':', ''), 'hex')

function address(text: string): Buffer {
  const buffer = Buffer.alloc(4)
  buffer.writeUInt32BE(parseIpv4(text) ?? 0)
  return buffer
}

function u16(...values: number[]): Buffer {
  const buffer = Buffer.alloc(values.length * 2)
  values.forEach((value, index) => buffer.writeUInt16BE(value, index * 2))
  return buffer
}

function checksum(head: Buffer): number {
  let sum = 0
  for (let at = 0; at < head.length; at += 2) sum += head.readUInt16BE(at)
  sum = (sum >>> 16) + (sum & 0xffff)
  return ~(sum + (sum >>> 16)) & 0xffff
}
