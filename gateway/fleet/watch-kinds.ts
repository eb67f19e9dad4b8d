import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import type { HostState } from './host-state.js'
import type { FleetChanges } from './fleet-changes.js'
import { parseDescription, parseImport, parseMetrics, parseTemplate } from './parse-events.js'
import type { ReportedAlerts } from './reported-alerts.js'
import type { ReportedGuests } from './reported-guests.js'
import type { ReportedOperations } from './reported-operations.js'

export type WatchEvent = NonNullable<WatchResponse['event']>
/** Kinds of data that a host can have many times. Each item has a key. */
export type EntityKind = Extract<WatchEvent, { value: { revision: number } }>['$case']
/** Kinds of data that a host has only once. */
export type SingleKind = Exclude<WatchEvent['$case'], EntityKind | 'guests' | 'removed' | 'reset' | 'synced'>
export type ValueOf<Kind extends WatchEvent['$case']> = Extract<WatchEvent, { $case: Kind }>['value']

/** State that the agents of all hosts reported. The state of a single host is in its `HostState`. */
export interface ReportedState {
  readonly guests: ReportedGuests
  readonly operations: ReportedOperations
  readonly alerts: ReportedAlerts
  readonly changes: FleetChanges
}

interface EntityPlace<Value> {
  readonly keyOf: (value: Value) => string
  /** Keys of the host's items of this kind in the fleet view. */
  readonly keys: (host: HostState) => Iterable<string>
  /**
   * Adds or replaces an item. Cuts its long texts and lists. If the item is invalid, rejects it and sets
   * `host.refused`.
   */
  readonly set: (host: HostState, value: Value, fleet: ReportedState) => void
  readonly delete: (host: HostState, key: string, fleet: ReportedState) => void
}

const maxTemplates = 1000
const maxImports = 100

/** How the fleet view stores each kind of item. */
export const entityKinds: { readonly [Kind in EntityKind]: EntityPlace<ValueOf<Kind>> } = {
  guest: {
    keyOf: ({ uuid }) => uuid,
    keys: (host) => [...host.guests.keys(), ...host.conflicts.keys()],
    set: (host, guest, fleet) => fleet.guests.set(host, guest),
    delete: (host, uuid, fleet) => fleet.guests.delete(host, uuid),
  },
  operation: {
    keyOf: ({ id }) => id,
    keys: (host) => [...host.operations.keys(), ...host.waitingOperations.keys()],
    set: (host, operation, fleet) => fleet.operations.set(host, operation),
    delete: (host, id, fleet) => fleet.operations.delete(host, id),
  },
  template: {
    keyOf: ({ id }) => id,
    keys: (host) => host.templates.keys(),
    set: (host, raw) => {
      const template = parseTemplate(raw)
      if (!template || (host.templates.size >= maxTemplates && !host.templates.has(template.id)))
        return void (host.refused = 'the agent reported templates without valid id or too many')
      host.templates.set(template.id, { hostId: host.record.id, template })
    },
    delete: (host, id) => void host.templates.delete(id),
  },
  import: {
    keyOf: ({ id }) => id,
    keys: (host) => host.imports.keys(),
    set: (host, raw) => {
      const request = parseImport(raw)
      if (request?.waiting === false) return void host.imports.delete(request.id)
      if (!request || (host.imports.size >= maxImports && !host.imports.has(request.id)))
        return void (host.refused = 'the agent reported imports that are invalid, or too many')
      host.imports.set(request.id, request)
    },
    delete: (host, id) => void host.imports.delete(id),
  },
  alert: {
    keyOf: ({ id }) => id,
    keys: (host) => host.alerts.keys(),
    set: (host, alert, fleet) => fleet.alerts.set(host, alert),
    delete: (host, id, fleet) => fleet.alerts.delete(host, id),
  },
}

/** How the fleet view stores data that each host has only once, for example its description. */
export const singleKinds: {
  readonly [Kind in SingleKind]: (host: HostState, value: ValueOf<Kind>, fleet: ReportedState) => void
} = {
  host: (host, raw, fleet) => {
    const before = host.view
    const description = parseDescription(raw, host.record.id)
    if (description) {
      host.description = description
      fleet.changes.tell(host, { kind: 'host', before, after: host.view })
    } else host.refused = 'the agent described another host'
  },
  metrics: (host, raw, fleet) => {
    host.metrics = parseMetrics(raw)
    fleet.guests.readShared(host)
    fleet.changes.tell(host, { kind: 'usage', after: host.view })
  },
}

type EntityEvent = Extract<WatchEvent, { $case: EntityKind }>
type SingleEvent = Extract<WatchEvent, { $case: SingleKind }>

export function isEntity(event: WatchEvent): event is EntityEvent {
  return Object.hasOwn(entityKinds, event.$case)
}

function isSingle(event: WatchEvent): event is SingleEvent {
  return Object.hasOwn(singleKinds, event.$case)
}

/** Finds how the fleet view stores items of a kind that is only known at run time. */
export function placeOf(kind: EntityKind): EntityPlace<unknown> {
  return entityKinds[kind] as EntityPlace<unknown>
}

/** Finds how the fleet view stores a kind of item. `undefined`: this gateway does not know the kind. */
export function findPlace(kind: string): EntityPlace<unknown> | undefined {
  return Object.hasOwn(entityKinds, kind) ? placeOf(kind as EntityKind) : undefined
}

/** Applies one change that a host reported. The watch session handles the events `reset`, `guests` and `synced`. */
export function applyEvent(host: HostState, event: WatchEvent, fleet: ReportedState): void {
  if (isEntity(event)) placeOf(event.$case).set(host, event.value, fleet)
  else if (isSingle(event))
    (singleKinds[event.$case] as (host: HostState, value: unknown, fleet: ReportedState) => void)(
      host,
      event.value,
      fleet,
    )
  else if (event.$case === 'removed') findPlace(event.value.kind)?.delete(host, event.value.key, fleet)
}
