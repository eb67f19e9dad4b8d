import type { ChangeMark } from './change-mark.js'
import type { HostState } from './host-state.js'
import {
  applyEvent,
  entityKinds,
  isEntity,
  placeOf,
  type EntityKind,
  type ReportedState,
  type ValueOf,
  type WatchEvent,
} from './watch-kinds.js'

/** Collects the complete state that an agent sends, so that the whole state becomes visible in one step. */
export class WatchSnapshot {
  readonly #entities = new Map<EntityKind, Map<string, WatchEvent>>()
  readonly #singles = new Map<WatchEvent['$case'], WatchEvent>()

  add(event: WatchEvent): void {
    if (isEntity(event)) this.#of(event.$case).set(placeOf(event.$case).keyOf(event.value), event)
    else if (event.$case === 'removed') this.#entities.get(event.value.kind as EntityKind)?.delete(event.value.key)
    else this.#singles.set(event.$case, event)
  }

  has(kind: EntityKind, key: string): boolean {
    return this.#of(kind).has(key)
  }

  values<Kind extends EntityKind>(kind: Kind): ValueOf<Kind>[] {
    return [...this.#of(kind).values()].map(({ value }) => value as ValueOf<Kind>)
  }

  /**
   * Deletes from the fleet view the host's items that the snapshot lacks, and then sets all items of the snapshot.
   * @param mark position at which the snapshot was taken
   */
  apply(host: HostState, fleet: ReportedState, mark: ChangeMark): void {
    fleet.changes.during({ ...mark, isPartial: true }, () => this.#deleteMissing(host, fleet))
    host.refused = ''
    for (const kind of Object.keys(entityKinds) as EntityKind[])
      for (const event of this.#of(kind).values())
        fleet.changes.during({ lane: mark.lane, revision: revisionOf(event), isPartial: true }, () =>
          applyEvent(host, event, fleet),
        )
    for (const event of this.#singles.values()) applyEvent(host, event, fleet)
  }

  #deleteMissing(host: HostState, fleet: ReportedState): void {
    for (const kind of Object.keys(entityKinds) as EntityKind[])
      for (const key of placeOf(kind).keys(host)) if (!this.has(kind, key)) placeOf(kind).delete(host, key, fleet)
  }

  #of(kind: EntityKind): Map<string, WatchEvent> {
    const known = this.#entities.get(kind)
    if (known) return known
    const made = new Map<string, WatchEvent>()
    this.#entities.set(kind, made)
    return made
  }
}

function revisionOf(event: WatchEvent): number {
  return isEntity(event) ? event.value.revision : 0
}
