import type { FleetChange } from '../fleet/fleet-changes.js'

export const eventKinds = ['guest', 'task', 'host', 'usage', 'alert', 'maintenance'] as const
export type EventKind = (typeof eventKinds)[number]

/** Types of events: `kind.word`, for example `guest.created`. */
export const eventTypes = [
  ...(['guest.created', 'guest.updated', 'guest.removed', 'guest.host'] as const),
  ...(['guest.suspended', 'guest.unsuspended', 'guest.moved', 'guest.standby_failed'] as const),
  ...(['guest.deleted', 'guest.undeleted'] as const),
  ...(['task.pending', 'task.running', 'task.done', 'task.failed', 'task.canceled'] as const),
  ...(['task.progress', 'task.removed'] as const),
  ...(['host.added', 'host.online', 'host.offline', 'host.updated', 'host.removed'] as const),
  ...(['host.upgraded', 'host.upgrade_failed', 'host.drained', 'host.fenced'] as const),
  ...(['usage.host'] as const),
  ...(['alert.raised', 'alert.updated', 'alert.removed'] as const),
  ...(['maintenance.announced', 'maintenance.changed', 'maintenance.started'] as const),
  ...(['maintenance.ended', 'maintenance.canceled'] as const),
]
export type EventType = (typeof eventTypes)[number]

export interface EventContent {
  readonly type: EventType
  readonly hostId: string
  /** Uuid of the affected container. Empty: the event is not about a container. */
  readonly guestUuid: string
  /** Data of the event in JSON. */
  readonly data: string
  /** Name of a caller in the field `user` of `data`. Sub-users see this name only if it is their own. */
  readonly actor?: string
  /** Type and data for listeners that may access only some guests. Absent: the same as for others. `null`: no event. */
  readonly customer?: CustomerEvent | null
}

export interface CustomerEvent {
  readonly type: EventType
  readonly data: string
}

/** Converts a change to events. Returns no events if the change makes no visible difference. */
export type Describe = (change: FleetChange, hostId: string) => readonly EventContent[]

export function kindOf(type: EventType): EventKind {
  return type.slice(0, type.indexOf('.')) as EventKind
}
