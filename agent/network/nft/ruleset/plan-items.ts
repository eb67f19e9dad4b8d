/** A part of an nft table. In a transaction, nft needs the parts in the order of this union type. */
export type Item =
  | { readonly set: string; readonly body: string }
  | PacketSet
  | { readonly map: string; readonly body: string }
  | { readonly chain: string; readonly hook?: string }
  | { readonly rule: string; readonly chain: string }

interface PacketSet {
  readonly packetSet: string
  readonly body: string
  readonly key: string
}

type Hook = 'prerouting' | 'input' | 'output' | 'forward' | 'postrouting'

export const set = (name: string, body: string): Item => ({ set: name, body })

/** A valid key for each nft type, used in the temporary element that `packetSetCommands` adds to a new set. */
const zeroKeys = {
  ether_addr: '00:00:00:00:00:00',
  ifname: '"none"',
  classid: '0:0',
  ipv4_addr: '0.0.0.0',
  ipv6_addr: '::',
  inet_service: '0',
} as const

type KeyType = keyof typeof zeroKeys

/** A set to which packets add at most 65535 elements. @param timeout such as `10s`; without it, elements stay */
export function packetSet(
  name: string,
  key: readonly KeyType[],
  { timeout, counter = false }: { timeout?: string; counter?: boolean } = {},
): Item {
  const flags = timeout ? `flags dynamic,timeout; timeout ${timeout};` : 'flags dynamic;'
  const body = `type ${key.join(' . ')}; size 65535; ${flags}${counter ? ' counter;' : ''}`
  return { packetSet: name, body, key: key.map((type) => zeroKeys[type]).join(' . ') }
}

export const map = (name: string, body: string): Item => ({ map: name, body })
export const chain = (name: string): Item => ({ chain: name })
export const rule = (chainName: string, text: string): Item => ({ rule: text, chain: chainName })

/** Bits of the packet mark. They exist only within the host, because packets lose their mark between namespaces. */
export const marks = {
  /**
   * Marks packets that the filter for routed packets has accepted from one guest to another, through a port mapping.
   * The bridge table must accept them, too. If net.bridge.bridge-nf-call-iptables is set, as by Docker and Kubernetes,
   * the kernel runs IP hooks on bridged frames. It then forwards such a packet on the bridge without routing it.
   */
  hairpin: '0x8000000',
  /** Mark of packets that passed the bridge table or the filter table. The guard drops packets that lack it. */
  bridged: '0x4000000',
  filtered: '0x2000000',
} as const

export const setMark = (mark: keyof typeof marks): string => `meta mark set meta mark or ${marks[mark]}`
export const hasMark = (mark: keyof typeof marks): string => `meta mark and ${marks[mark]} != 0`
export const lacksMark = (mark: keyof typeof marks): string => `meta mark and ${marks[mark]} == 0`

/** Returns a base chain. Its default name is the name of its hook. */
export function hook(point: Hook, type: 'filter' | 'nat', priority: number, name: string = point): Item {
  return { chain: name, hook: `type ${type} hook ${point} priority ${priority}; policy accept;` }
}

/** Returns the commands of a transaction that creates the table. */
export function inTable(family: string, table: string, items: readonly Item[]): string[] {
  const at = `${family} ${table}`
  const commands = (item: Item): string | string[] => {
    if ('rule' in item) return `add rule ${at} ${item.chain} ${item.rule}`
    if ('chain' in item) return `add chain ${at} ${item.chain}${item.hook ? ` { ${item.hook} }` : ''}`
    if ('set' in item) return `add set ${at} ${item.set} { ${item.body} }`
    if ('packetSet' in item) return packetSetCommands(at, item)
    return `add map ${at} ${item.map} { ${item.body} }`
  }
  return [`add table ${at}`, ...items.flatMap(commands)]
}

/**
 * Returns commands that create a set to which packets add elements. A new set takes 2 MB, for its maximum size, and the
 * kernel scans it every second (0.13 ms). These scans end when an element is removed for the first time. The commands
 * therefore add an element and remove it at once.
 */
function packetSetCommands(at: string, { packetSet: name, body, key }: PacketSet): string[] {
  const element = `element ${at} ${name} { ${key} }`
  return [`add set ${at} ${name} { ${body} }`, `add ${element}`, `delete ${element}`]
}
