import type { FleetChange } from '../fleet/fleet-changes.js'

export const eventKinds = ['guest', 'task', 'host', 'usage', 'alert'] as const
export type EventKind = (typeof eventKinds)[number]

/** Types of events, as `kind.word`. */
export const eventTypes = [
  ...(['guest.created', 'guest.updated', 'guest.removed', 'guest.host'] as const),
  ...(['guest.suspended', 'guest.unsuspended'] as const),
  ...(['task.pending', 'task.running', 'task.done', 'task.failed', 'task.canceled'] as const),
  ...(['task.progress', 'task.removed'] as const),
  ...(['host.added', 'host.online', 'host.offline', 'host.updated', 'host.removed'] as const),
  ...(['usage.host'] as const),
  ...(['alert.raised', 'alert.updated', 'alert.removed'] as const),
]
export type EventType = (typeof eventTypes)[number]

/** Content of the event for one change. */
export interface EventContent {
  readonly type: EventType
  readonly hostId: string
  /** UUID of the affected container; empty: none. */
  readonly guestUuid: string
  /** The event's data as JSON. */
  readonly data: string
  /** JSON for listeners that are bound to containers; absent: the same. */
  readonly customerData?: string
}

/** The events of a change: none if clients would see no difference. */
export type Describe = (change: FleetChange, hostId: string) => readonly EventContent[]

export function kindOf(type: EventType): EventKind {
  return type.slice(0, type.indexOf('.')) as EventKind
}
