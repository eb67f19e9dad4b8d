import { CatchUp, type Foreign } from './catch-up.js'
import { formatEventId, parseEventId } from './event-id.js'
import type { StreamStart } from './listener.js'
import { includes } from './positions.js'
import type { EventRing } from './ring.js'
import type { SharedOrder } from './shared-order.js'

/**
 * Events that a client has received before. `new`: the client needs no earlier events; `unknown`: it must start over.
 * `own`: number of the client's last event from this gateway; `foreign`: events from other gateways.
 */
export type Resume = 'new' | 'unknown' | { readonly own?: number; readonly foreign?: Foreign }

/**
 * Finds out which events a client has received.
 * @param ownEpoch `epoch` of this gateway's `EventRing`, which changes when the ring starts over
 * @param lastId id of the client's last event; undefined: none
 */
export async function readResume(
  ownEpoch: string,
  lastId: string | undefined,
  order: Pick<SharedOrder, 'find'> | undefined,
): Promise<Resume> {
  if (lastId === undefined) return 'new'
  const numbers = parseEventId(lastId)
  if (!numbers) return 'unknown'
  const own = numbers.find(({ epoch }) => epoch === ownEpoch)?.number
  const others = numbers.filter(({ epoch }) => epoch !== ownEpoch)
  if (others.length === 0) return { own: own! }
  const position = await order?.find(others)
  if (!position) return 'unknown'
  // The gateway that created the first part of an event id reported the states of host connections to the client.
  const connections = numbers[0]!.epoch === ownEpoch ? undefined : await order?.find([numbers[0]!])
  return { ...(own !== undefined && { own }), foreign: { numbers: others, position, connections } }
}

/** Returns where the client's stream begins. `undefined`: the client must start over. */
export function startOf(ring: EventRing, resume: Resume): StreamStart | undefined {
  if (resume === 'new') return { next: ring.released }
  if (resume === 'unknown') return undefined
  const { own, foreign } = resume
  const catchUp = foreign && new CatchUp(foreign)
  if (own !== undefined) return ring.has(own) ? { next: own + 1, catchUp } : undefined
  if (!foreign || !includes(foreign.position, ring.base)) return undefined
  return { next: ring.first, catchUp, id: formatEventId(foreign.numbers) }
}
