import { askNetfilter, attribute, attributesIn, familyBytes, netlink, uint32 } from './netlink.js'

/* linux/netfilter/nf_tables.h */
const getObjects = (10 << 8) | 19
const newObject = (10 << 8) | 18
const inet = 1
const counterType = 1
const [objectTable, objectName, objectType, objectData] = [1, 2, 3, 4]
const counterBytes = 1

/** A list that somebody changed meanwhile may lack some. */
const attempts = 3

/** Bytes of the named counters of an inet table, by name; none where there is no such table. */
export async function readNamedCounters(table: string): Promise<Map<string, number>> {
  const attributes = [attribute(objectTable, table), attribute(objectType, uint32(counterType))]
  const request = {
    type: getObjects,
    flags: netlink.dump,
    family: inet,
    attributes: Buffer.concat(attributes),
  }
  for (let attempt = 1; ; attempt++) {
    const answers = await askNetfilter([request])
    const interrupted = answers.some(({ flags }) => (flags & netlink.interrupted) !== 0)
    if (interrupted && attempt < attempts) continue
    return new Map(answers.filter(({ type }) => type === newObject).map(({ body }) => parseCounter(body)))
  }
}

function parseCounter(body: Buffer): [name: string, bytes: number] {
  const object = attributesIn(body, familyBytes)
  const counter = attributesIn(object.get(objectData) ?? Buffer.alloc(0))
  const name = object.get(objectName)?.toString('latin1').replace(/\0$/, '') ?? ''
  return [name, Number(counter.get(counterBytes)?.readBigUInt64BE() ?? 0)]
}
