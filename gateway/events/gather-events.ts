import { Buffer } from 'node:buffer'
import { hiddenActor } from '../access/shown-actor.js'
import type { FleetView } from '../fleet/contract.js'
import { hidesActor, isFor, type Audience } from './audience.js'
import type { CatchUp } from './catch-up.js'
import type { EventContent } from './event.js'
import { encodeEvent, type EventRing, type SentEvent } from './ring.js'

/** Encoded events, and the number of the entry after them. */
export interface GatheredEvents {
  readonly bytes: Buffer
  readonly next: number
  /** True if some events reached neither this gateway nor the client. The client must then start over. */
  readonly isGap?: boolean
}

export interface GatherRequest {
  readonly ring: EventRing
  readonly view: Pick<FleetView, 'findGuest'>
  readonly audience: Audience
  /** Number of the first entry. */
  readonly from: number
  readonly maxBytes: number
}

/** Encodes the events that an audience may receive, from the number `from` to the last released event. */
export function gatherEvents({ ring, view, audience, from, maxBytes }: GatherRequest): GatheredEvents {
  const frames: Buffer[] = []
  let [bytes, next] = [0, from]
  for (; next < ring.released && bytes < maxBytes; next++) {
    const { event } = ring.at(next)
    if (!event || !isFor(audience, event, view)) continue
    const frame = frameFor(audience, event, ring.idOf(next))
    frames.push(frame)
    bytes += frame.length
  }
  return { bytes: Buffer.concat(frames), next }
}

/** Like `gatherEvents`, but for a client that has also received events of other gateways. */
export function gatherMissing(
  { ring, view, audience, from, maxBytes }: GatherRequest,
  catchUp: CatchUp,
): GatheredEvents {
  const frames: Buffer[] = []
  let [bytes, next] = [0, from]
  for (; next < ring.released && bytes < maxBytes; next++) {
    const entry = ring.at(next)
    const verdict = catchUp.judge(entry)
    if (verdict === 'gap') return { bytes: Buffer.concat(frames), next, isGap: true }
    if (verdict === 'skip' || !entry.event || !isFor(audience, entry.event, view)) continue
    const frame = withId(
      frameFor(audience, entry.event, ring.idOf(next)),
      catchUp.idAfter({ epoch: ring.epoch, number: next }),
    )
    frames.push(frame)
    bytes += frame.length
  }
  return { bytes: Buffer.concat(frames), next }
}

/** Encodes an event without an id, for one audience. */
export function encodeFor(audience: Audience, event: EventContent): Buffer {
  const { type, data } = audience.guests === 'all' ? event : (event.customer ?? event)
  return Buffer.from(encodeEvent(type, hidesActor(audience, event) ? withoutActor(data) : data))
}

/** Returns an event with its id. Only events with a hidden name are encoded for each listener. */
function frameFor(audience: Audience, event: SentEvent, id: string): Buffer {
  if (hidesActor(audience, event)) return Buffer.concat([Buffer.from(`id: ${id}\n`), encodeFor(audience, event)])
  return audience.guests === 'all' ? event.frame : event.customerFrame
}

function withoutActor(data: string): string {
  return JSON.stringify({ ...(JSON.parse(data) as object), user: hiddenActor })
}

/** Replaces the id of an encoded event. The id must be the first line. */
function withId(frame: Buffer, id: string): Buffer {
  return Buffer.concat([Buffer.from(`id: ${id}`), frame.subarray(frame.indexOf('\n'))])
}
