import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import type { AlertStore } from '../abuse/alert-store.js'
import { fairlyNewest } from '../../shared/fair-newest.js'
import { listedOperations } from '../../shared/operation-limits.js'
import type { GuestRecord } from '../guests/record/record.js'
import type { GuestStore } from '../guests/record/guest-store.js'
import type { ImageStore } from '../images/image-store.js'
import type { ImportStore } from '../imports/import-store.js'
import type { OperationStore } from '../operations/operation-store.js'
import type { OperationRecord } from '../operations/types.js'
import type { ChangeKind } from '../state/changes.js'
import { encodeGuest } from './encode.js'
import { encodeAlert } from './security-service.js'

export type WatchEvent = NonNullable<WatchResponse['event']>

/** An entity in the form that watchers get, and its revision. */
export interface WatchedEntity {
  readonly revision: number
  readonly event: WatchEvent
}

/** Functions that read entities of one kind for watchers. */
export interface WatchKind {
  /** Lists the entities whose last change came after this revision. -1: all entities. */
  list(sinceRevision: number): WatchedEntity[]
  /** Returns an entity in its present state; undefined if it no longer exists. */
  find(key: string): WatchedEntity | undefined
}

/** All kinds, in the order in which a new watcher gets entities of the same revision. */
export type WatchKinds = { readonly [Kind in ChangeKind]: WatchKind }

export interface WatchStores {
  readonly guests: GuestStore
  readonly operations: OperationStore
  readonly images: ImageStore
  readonly alerts: AlertStore
  readonly imports: ImportStore
}

/** Returns every kind of entity that watchers get. Each kind must also be in the gateway's watch-kinds.ts. */
export function watchKinds({ guests, operations, images, alerts, imports }: WatchStores): WatchKinds {
  return {
    template: kind({
      list: (since) => images.templates().filter(({ revision }) => revision > since),
      find: (key) => images.find(key),
      encode: (value) => ({ $case: 'template', value }),
    }),
    guest: kind({
      list: (since) => guests.list(since).filter(isShown),
      find: (key) => [guests.find(key)].find((record) => record && isShown(record)),
      encode: (record) => ({ $case: 'guest', value: encodeGuest(record) }),
    }),
    operation: kind({
      list: (since) => (since >= 0 ? operations.list(since) : listed(operations.list(since))),
      find: (key) => operations.find(key),
      encode: (value) => ({ $case: 'operation', value }),
    }),
    alert: kind({
      list: (since) => alerts.list(since),
      find: (key) => alerts.find(key),
      encode: (record) => ({ $case: 'alert', value: encodeAlert(record) }),
    }),
    import: kind({
      list: (since) => imports.list().filter(({ revision }) => revision > since),
      find: (key) => imports.find(key),
      encode: ({ id, name, spec, revision, state }) => ({
        $case: 'import',
        value: { id, name, spec, revision, waiting: state === 'waiting' },
      }),
    }),
  }
}

/** True if watchers get the guest. While a guest is moving to this host, only its former host reports it. */
function isShown({ ownership }: GuestRecord): boolean {
  return ownership.role !== 'arriving'
}

/**
 * Returns all unfinished operations and the newest ended ones. A guest with many operations does not displace the
 * operations of other guests.
 */
function listed(all: readonly OperationRecord[]): readonly OperationRecord[] {
  const newest = new Set(fairlyNewest(all, ({ subject }) => `${subject.kind} ${subject.id}`, listedOperations))
  return all.filter((record) => newest.has(record) || record.finishedAtMs === 0)
}

interface Source<Entity> {
  readonly list: (sinceRevision: number) => readonly Entity[]
  readonly find: (key: string) => Entity | undefined
  readonly encode: (entity: Entity) => WatchEvent
}

function kind<Entity extends { readonly revision: number }>({ list, find, encode }: Source<Entity>): WatchKind {
  const seen = (entity: Entity): WatchedEntity => ({ revision: entity.revision, event: encode(entity) })
  return {
    list: (since) => list(since).map(seen),
    find: (key) => {
      const found = find(key)
      return found && seen(found)
    },
  }
}
