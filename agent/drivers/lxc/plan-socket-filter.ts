/** System calls that are forbidden to guests unless the operator allows them (setting `lxc.allow`). */
export type OpenCalls = 'packet-rings' | 'sockets-32bit'

/** Allowed families: AF_UNIX, AF_INET, AF_INET6, AF_PACKET (DHCP clients, arping). Netlink is checked by protocol. */
const openFamilies = [1, 2, 10, 17]

/**
 * AF_NETLINK and its allowed protocols: routes, sockets (ss), IPsec, audit (PAM), netfilter, device events, generic
 * (WireGuard, ethtool). Guests need no other protocols. Receive queues of netlink take memory that counts towards no
 * limit.
 */
const netlinkFamily = 16
const openProtocols = [0, 4, 6, 9, 12, 15, 16]

/** SOL_PACKET, and its options PACKET_RX_RING and PACKET_TX_RING. The memory of these rings counts towards no limit. */
const packetLevel = 263
const packetRings = [5, 13]

const [eNoSys, eNoProtoOpt, eProtoNoSupport, eAfNoSupport] = [38, 92, 93, 97]

/** An instruction of a classic BPF program (linux/filter.h). Labels are converted to jump distances. */
interface Instruction {
  readonly code: number
  readonly value: number
  readonly yes?: string
}

type Line = Instruction | { readonly label: string }

const load = (offset: number): Instruction => ({ code: 0x20, value: offset })
const jumpIfEqual = (value: number, yes: string): Instruction => ({ code: 0x15, value, yes })
const clearBits = (bits: number): Instruction => ({ code: 0x54, value: ~bits >>> 0 })
const give = (action: number): Instruction => ({ code: 0x06, value: action })
const allow = give(0x7fff0000)
const refuse = (errno: number): Instruction => give(0x00050000 | errno)

/** Offsets in struct seccomp_data. Only the low half of int arguments is compared, as the kernel does. */
const [callNumber, architecture, arguments_] = [0, 4, 16]
const argument = (index: number): Instruction => load(arguments_ + index * 8)

/**
 * Builds a seccomp program as bytes of struct sock_filter. The program allows only sockets of `openFamilies` and
 * netlink sockets of `openProtocols`, in every calling convention of the processor. lxc's own profiles cannot do this,
 * because they skip multiplexed calls, such as the 32-bit socket calls.
 */
export function planSocketFilter(allowed: readonly OpenCalls[]): Buffer {
  const isAllowed = (call: OpenCalls): boolean => allowed.includes(call)
  const rings = (number: number): Instruction[] => (isAllowed('packet-rings') ? [] : [jumpIfEqual(number, 'option')])
  return assemble([
    load(architecture),
    jumpIfEqual(0xc000003e, 'x86-64'),
    jumpIfEqual(0x40000003, 'i386'),
    jumpIfEqual(0xc00000b7, 'arm64'),
    jumpIfEqual(0x40000028, 'arm'),
    allow,
    { label: 'x86-64' },
    load(callNumber),
    clearBits(0x40000000), // treats x32 calls like x86-64 calls
    jumpIfEqual(41, 'family'),
    jumpIfEqual(53, 'family'),
    ...rings(54),
    ...rings(541),
    allow,
    { label: 'i386' },
    load(callNumber),
    jumpIfEqual(359, 'family'),
    jumpIfEqual(360, 'family'),
    ...rings(366),
    // socketcall passes its arguments in memory, where a filter cannot see them. Programs can use the separate system
    // calls, such as socket(2), instead.
    ...(isAllowed('sockets-32bit') ? [] : [jumpIfEqual(102, 'socketcall')]),
    allow,
    { label: 'arm64' },
    load(callNumber),
    jumpIfEqual(198, 'family'),
    jumpIfEqual(199, 'family'),
    ...rings(208),
    allow,
    { label: 'arm' },
    load(callNumber),
    jumpIfEqual(281, 'family'),
    jumpIfEqual(288, 'family'),
    ...rings(294),
    allow,
    { label: 'socketcall' },
    refuse(eNoSys),
    { label: 'family' },
    argument(0),
    jumpIfEqual(netlinkFamily, 'netlink'),
    ...openFamilies.map((family) => jumpIfEqual(family, 'allow')),
    refuse(eAfNoSupport),
    { label: 'netlink' },
    argument(2),
    ...openProtocols.map((protocol) => jumpIfEqual(protocol, 'allow')),
    refuse(eProtoNoSupport),
    { label: 'option' },
    argument(1),
    jumpIfEqual(packetLevel, 'ring'),
    allow,
    { label: 'ring' },
    argument(2),
    ...packetRings.map((option) => jumpIfEqual(option, 'refused')),
    { label: 'allow' },
    allow,
    { label: 'refused' },
    refuse(eNoProtoOpt),
  ])
}

function assemble(lines: readonly Line[]): Buffer {
  const places = new Map<string, number>()
  const program: Instruction[] = []
  for (const line of lines)
    if ('label' in line) places.set(line.label, program.length)
    else program.push(line)
  return Buffer.concat(program.map((instruction, at) => encode(instruction, at, places)))
}

function encode({ code, value, yes }: Instruction, at: number, places: ReadonlyMap<string, number>): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt16LE(code, 0)
  bytes.writeUInt8(yes === undefined ? 0 : (places.get(yes) ?? NaN) - at - 1, 2)
  bytes.writeUInt32LE(value, 4)
  return bytes
}
