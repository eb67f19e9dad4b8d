import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { KeyedCondition } from '../../shared/async/keyed-condition.js'
import { listedOperations } from '../../shared/operation-limits.js'
import type { OperationView } from './contract.js'
import type { FleetChanges } from './fleet-changes.js'
import type { HostState } from './host-state.js'
import { OperationTable } from './lists/operation-table.js'
import { parseOperation } from './parse-events.js'

/** Adds reported operations to the fleet view, within a limit for each host. */
export class ReportedOperations {
  readonly table = new OperationTable()
  /** Condition that is notified, by operation id, when an operation changes. */
  readonly changed = new KeyedCondition()

  constructor(private readonly changes: FleetChanges) {}

  set(host: HostState, raw: Operation): void {
    const view = this.check(host, raw)
    if (!view) return
    const before = host.operations.get(view.operation.id)
    host.operations.set(view.operation.id, view)
    this.table.set(view.operation.id, view)
    this.changed.notify(view.operation.id)
    this.changes.tell(host, { kind: 'task', ...(before && { before }), after: view })
    if (host.operations.size > listedOperations) this.#dropOldest(host)
  }

  delete(host: HostState, id: string): void {
    const before = this.#drop(host, id)
    if (before) this.changes.tell(host, { kind: 'task', before })
  }

  /** Cuts long texts and lists of an operation. Returns `undefined` if the id is invalid or belongs to another host. */
  check(host: HostState, raw: Operation): OperationView | undefined {
    const operation = parseOperation(raw)
    if (!operation) return void (host.refused = 'the agent reported an operation without valid id')
    const other = this.table.find(operation.id)
    if (other && other.hostId !== host.record.id)
      return void (host.refused = `operation ${operation.id} belongs to host ${other.hostId}`)
    return { hostId: host.record.id, operation }
  }

  #drop(host: HostState, id: string): OperationView | undefined {
    const before = host.operations.get(id)
    if (!host.operations.delete(id)) return undefined
    this.table.delete(id)
    this.changed.notify(id)
    return before
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
