import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { KeyedCondition } from '../../shared/async/keyed-condition.js'
import { listedOperations } from '../../shared/operation-limits.js'
import type { OperationView } from './contract.js'
import type { FleetChanges } from './fleet-changes.js'
import type { HostState } from './host-state.js'
import { guestUuidOf } from './operation-subject.js'
import { isEnded, OperationTable } from './lists/operation-table.js'
import { parseOperation } from './parse-events.js'

/** Adds reported operations to the fleet view, within a limit for each host. */
export class ReportedOperations {
  readonly table = new OperationTable()
  /** Condition that is notified, by operation id, when an operation changes. */
  readonly changed = new KeyedCondition()

  /** By operation id: further hosts that report an operation, which is shown at the host that reported it first. */
  readonly #waiting = new Map<string, Set<HostState>>()

  constructor(private readonly changes: FleetChanges) {}

  set(host: HostState, raw: Operation): void {
    const view = this.check(host, raw)
    if (!view) return
    const { id, moved } = view.operation
    if (this.#isElsewhere(host, id)) return this.#wait(host, view)
    const before = host.operations.get(id)
    this.#show(host, view)
    // An operation that moved with its guest was reported by the former host already.
    if (before || !moved) this.changes.tell(host, { kind: 'task', ...(before && { before }), after: view })
    if (host.operations.size > listedOperations) this.#dropOldest(host)
  }

  delete(host: HostState, id: string): void {
    if (host.waitingOperations.delete(id)) return this.#endWait(host, id)
    const before = this.#drop(host, id)
    if (before && !this.table.find(id)) this.changes.tell(host, { kind: 'task', before })
  }

  #show(host: HostState, view: OperationView): void {
    const { id } = view.operation
    host.operations.set(id, view)
    this.table.set(id, view)
    this.changed.notify(id)
  }

  #isElsewhere(host: HostState, id: string): boolean {
    const other = this.table.find(id)
    return other !== undefined && other.hostId !== host.record.id
  }

  /** The operation is shown at this host when the other host of its guest no longer reports it. */
  #wait(host: HostState, view: OperationView): void {
    const { id } = view.operation
    host.waitingOperations.set(id, view)
    this.#waiting.set(id, (this.#waiting.get(id) ?? new Set()).add(host))
  }

  #endWait(host: HostState, id: string): void {
    const waiting = this.#waiting.get(id)
    if (waiting?.delete(host) && waiting.size === 0) this.#waiting.delete(id)
  }

  /** Cuts long texts and lists of an operation. Returns `undefined` if the id is invalid or belongs to another host. */
  check(host: HostState, raw: Operation): OperationView | undefined {
    const operation = parseOperation(raw)
    if (!operation) return void (host.refused = 'the agent reported an operation without valid id')
    const other = this.table.find(operation.id)
    if (other && other.hostId !== host.record.id && !isSamePast(other.operation, operation))
      return void (host.refused = `operation ${operation.id} belongs to host ${other.hostId}`)
    return { hostId: host.record.id, operation }
  }

  #drop(host: HostState, id: string): OperationView | undefined {
    const before = host.operations.get(id)
    if (!host.operations.delete(id)) return undefined
    this.table.delete(id)
    this.changed.notify(id)
    this.#showWaiting(id)
    return before
  }

  #showWaiting(id: string): void {
    const next = ownerFirst([...(this.#waiting.get(id) ?? [])], (host) => [host, host.waitingOperations.get(id)])
    const view = next?.waitingOperations.get(id)
    if (!next || !view) return
    next.waitingOperations.delete(id)
    this.#endWait(next, id)
    this.#show(next, view)
  }

  /**
   * Drops the oldest operation of the guest with the most operations. Listeners are not notified, because the operation
   * can still be read by its id from the agent's journal.
   */
  #dropOldest(host: HostState): void {
    const crowded = mostFrequent([...host.operations.values()].map(subjectOf))
    const oldest = [...host.operations.values()].find((view) => subjectOf(view) === crowded)
    if (oldest) this.#drop(host, oldest.operation.id)
  }
}

/**
 * Chooses the host that has the operation's guest, because a former host of the guest could lie. If no host has the
 * guest, chooses the first one.
 */
export function ownerFirst<Item>(
  items: readonly Item[],
  partsOf: (item: Item) => readonly [HostState | undefined, OperationView | undefined],
): Item | undefined {
  const hasGuest = (item: Item): boolean => {
    const [host, view] = partsOf(item)
    return view !== undefined && host?.guests.has(guestUuidOf(view.operation)) === true
  }
  return items.find(hasGuest) ?? items[0]
}

/** True if both are the same ended operation, which moved with its guest from one host to another. */
export function isSamePast(a: Operation, b: Operation): boolean {
  const uuid = guestUuidOf(a)
  return (a.moved || b.moved) && isEnded(a) && isEnded(b) && uuid !== '' && uuid === guestUuidOf(b)
}

function subjectOf({ operation: { subject } }: OperationView): string {
  return `${subject?.kind ?? ''} ${subject?.id ?? ''}`
}

/** Returns the most frequent value. If several values are equally frequent, returns the first of them. */
function mostFrequent(names: readonly string[]): string | undefined {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  let most: string | undefined
  for (const [name, count] of counts) if (count > (counts.get(most ?? '') ?? 0)) most = name
  return most
}
