/** Parts of a table, in the order in which nft needs them. */
export type Item =
  | { readonly set: string; readonly body: string }
  | { readonly map: string; readonly body: string }
  | { readonly chain: string; readonly hook?: string }
  | { readonly rule: string; readonly chain: string }

type Hook = 'prerouting' | 'input' | 'output' | 'forward' | 'postrouting'

export const set = (name: string, body: string): Item => ({ set: name, body })
export const map = (name: string, body: string): Item => ({ map: name, body })
export const chain = (name: string): Item => ({ chain: name })
export const rule = (chainName: string, text: string): Item => ({ rule: text, chain: chainName })

/** Bits of the packet mark. They exist within the host only: packets lose their mark between namespaces. */
export const marks = {
  /**
   * A mapping by which one guest reaches another. With net.bridge.bridge-nf-call-iptables, which Docker and Kubernetes
   * set for all bridges, the kernel runs IP hooks on frames and forwards such a packet on the bridge without routing
   * it: the bridge table has to let it through, after the filter for routed packets.
   */
  hairpin: '0x8000000',
  /** The packet has met the rules of the bridge table or the filter table. The guard drops those that have not. */
  bridged: '0x4000000',
  filtered: '0x2000000',
} as const

export const setMark = (mark: keyof typeof marks): string => `meta mark set meta mark or ${marks[mark]}`
export const hasMark = (mark: keyof typeof marks): string => `meta mark and ${marks[mark]} != 0`
export const lacksMark = (mark: keyof typeof marks): string => `meta mark and ${marks[mark]} == 0`

/** A base chain; named like its hook by default. */
export function hook(point: Hook, type: 'filter' | 'nat', priority: number, name: string = point): Item {
  return { chain: name, hook: `type ${type} hook ${point} priority ${priority}; policy accept;` }
}

/** Commands that make the table, for one transaction. */
export function inTable(family: string, table: string, items: readonly Item[]): string[] {
  const at = `${family} ${table}`
  const command = (item: Item): string => {
    if ('rule' in item) return `add rule ${at} ${item.chain} ${item.rule}`
    if ('chain' in item) return `add chain ${at} ${item.chain}${item.hook ? ` { ${item.hook} }` : ''}`
    if ('set' in item) return `add set ${at} ${item.set} { ${item.body} }`
    return `add map ${at} ${item.map} { ${item.body} }`
  }
  return [`add table ${at}`, ...items.map(command)]
}
