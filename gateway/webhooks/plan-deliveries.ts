import type { EventContent } from '../events/event.js'
import type { QueuedDelivery } from './delivery-queue.js'

/** Limit per webhook: further events become one notice about dropped events. */
const maxQueued = 5000

export function hasRoom(waiting: number): boolean {
  return waiting < maxQueued
}

/**
 * True if the queue has room for one more delivery of a container. A container may use a quarter of the free room, so
 * that some of it always stays free for others.
 * @param own waiting deliveries of the container
 */
export function hasRoomFor(waiting: number, own: number): boolean {
  return hasRoom(waiting) && own * 4 <= maxQueued - waiting
}

export const droppedType = 'events.dropped'
/** The row is omitted from larger bodies. */
const maxBodyChars = 65_536

export interface DeliveryNames {
  readonly id: string
  readonly eventId: string
  readonly nowMs: number
}

/** The text that is sent, the same for each webhook. */
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
