import type { EventContent } from '../events/event.js'
import type { QueuedDelivery } from './delivery-queue.js'

/** Maximum number of pending deliveries of a webhook. Further events are replaced by one notice. */
const maxQueued = 5000

export function hasRoom(waiting: number): boolean {
  return waiting < maxQueued
}

/**
 * True if the queue has room for another delivery about a container. Pending deliveries about one container may take at
 * most a quarter of the free places, so that other containers have room.
 */
export function hasRoomFor(waiting: number, own: number): boolean {
  return hasRoom(waiting) && own * 4 <= maxQueued - waiting
}

export const droppedType = 'events.dropped'
/** Maximum number of characters of a body. If the body would be longer, the data of the event is omitted. */
const maxBodyChars = 65_536

export interface DeliveryNames {
  readonly id: string
  readonly eventId: string
  readonly nowMs: number
}

/** Creates the body of a message. All webhooks get the same body for an event. */
export function bodyOf(
  { type, hostId, guestUuid, data }: Pick<EventContent, 'hostId' | 'guestUuid' | 'data'> & { type: string },
  { eventId, nowMs }: Pick<DeliveryNames, 'eventId' | 'nowMs'>,
): string {
  const head = { id: eventId, type, timestamp: new Date(nowMs).toISOString(), host_id: hostId }
  const about = JSON.stringify({ ...head, container_uuid: guestUuid }).slice(0, -1)
  const whole = `${about},"truncated":false,"data":${data}}`
  return whole.length <= maxBodyChars ? whole : `${about},"truncated":true,"data":null}`
}

export function deliveryOf(
  { type, hostId, guestUuid }: Pick<EventContent, 'hostId' | 'guestUuid'> & { type: string },
  body: string,
  { id, eventId, nowMs }: DeliveryNames,
): Omit<QueuedDelivery, 'number'> {
  const about = { type, key: guestUuid === '' ? hostId : guestUuid, guestUuid }
  return { id, eventId, ...about, createdAtMs: nowMs, attempts: 0, nextAtMs: nowMs, body }
}
