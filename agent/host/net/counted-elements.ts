import {
  askNetfilter,
  attribute,
  attributesIn,
  eachAttribute,
  familyBytes,
  netlink,
  type NetlinkRequest,
} from './netlink.js'

/* Numbers of linux/netfilter/nf_tables.h. */
const [newElements, getElements] = [12, 13].map((message) => (10 << 8) | message) as [number, number]
const familyNumbers = { inet: 1, bridge: 7 } as const
const [listTable, listSet, listElements] = [1, 2, 3]
const [elementKey, elementExpression, dataValue, expressionData] = [1, 7, 1, 2]
const [counterBytes, counterPackets] = [1, 2]

/** Maximum number of attempts. If a set changes during its dump, the dump can be incomplete, and is repeated. */
const attempts = 3

export interface CountedElement<Name extends string> {
  readonly set: Name
  /** The key in the kernel's binary form. */
  readonly key: Buffer
  readonly bytes: number
  readonly packets: number
}

/** An nft set with a counter for each element. */
export interface CountingSet<Name extends string> {
  readonly table: string
  readonly set: Name
  /** nft family of the table. Default: inet. */
  readonly family?: keyof typeof familyNumbers
}

/** Reads the counters of elements in sets of an inet table. Ignores missing sets. */
export function readCountedElements<Name extends string>(
  table: string,
  sets: readonly Name[],
): Promise<CountedElement<Name>[]> {
  return readCountingSets(sets.map((set) => ({ table, set })))
}

/** Reads counters of elements in sets of several tables. The sets must have different names. Ignores missing sets. */
export async function readCountingSets<Name extends string>(
  sets: readonly CountingSet<Name>[],
): Promise<CountedElement<Name>[]> {
  const requests = sets.map(({ table, set, family = 'inet' }): NetlinkRequest => {
    const attributes = Buffer.concat([attribute(listTable, table), attribute(listSet, set)])
    return { type: getElements, flags: netlink.dump, family: familyNumbers[family], attributes }
  })
  for (let attempt = 1; ; attempt++) {
    const answers = await askNetfilter(requests)
    const interrupted = answers.some(({ flags }) => (flags & netlink.interrupted) !== 0)
    if (interrupted && attempt < attempts) continue
    return answers.filter(({ type }) => type === newElements).flatMap(({ body }) => parseElements<Name>(body))
  }
}

function parseElements<Name extends string>(body: Buffer): CountedElement<Name>[] {
  const list = attributesIn(body, familyBytes)
  const set = list.get(listSet)?.toString('latin1').replace(/\0$/, '') as Name
  return [...eachAttribute(list.get(listElements))].map(([, value]) => {
    const element = attributesIn(value)
    const counter = attributesIn(attributesIn(element.get(elementExpression)).get(expressionData))
    return {
      set,
      key: attributesIn(element.get(elementKey)).get(dataValue) ?? Buffer.alloc(0),
      bytes: Number(counter.get(counterBytes)?.readBigUInt64BE() ?? 0),
      packets: Number(counter.get(counterPackets)?.readBigUInt64BE() ?? 0),
    }
  })
}
