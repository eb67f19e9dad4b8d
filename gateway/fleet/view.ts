import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { listedOperations } from '../../shared/operation-limits.js'
import type { AlertView, FleetView, GuestView, HostView, OperationView, TemplateView } from './contract.js'
import { FleetChanges } from './fleet-changes.js'
import { GuestIndex } from './guest-index.js'
import type { HostRecord } from './host-record.js'
import { addCounts, type GuestCounts } from './guest-status.js'
import { HostState } from './host-state.js'
import type { GuestBlock } from './lists/guest-blocks.js'
import { OperationTable } from './lists/operation-table.js'
import { parseGuest, parseOperation } from './parse-events.js'
import { WatchSnapshot } from './snapshot.js'
import { applyEvent, type FleetIndexes, type WatchEvent } from './watch-kinds.js'

/** How much one host may add to the gateway's memory. */
const hostLimits = { guests: 10_000, mappings: 2 * 65_535 } as const

/** The fleet in memory. Agents' events go in, in the order they were sent; reads come out. */
export class FleetState implements FleetView {
  readonly #hosts = new Map<string, HostState>()
  readonly changes = new FleetChanges()
  readonly #guests = new GuestIndex((host, change) => this.changes.tell(host, { kind: 'guest', ...change }))
  readonly operationTable = new OperationTable()
  #guestsVersion = 0
  readonly #indexes: FleetIndexes = {
    setGuest: (host, guest) => this.#reportGuest(host, guest),
    deleteGuest: (host, uuid) => this.#deleteGuest(host, uuid),
    setOperation: (host, operation) => this.#setOperation(host, operation),
    deleteOperation: (host, id) => this.#deleteOperation(host, id),
    readAddress: (host) => this.#readAddress(host),
    changed: (host, change) => this.changes.tell(host, change),
  }

  /** Each function is called with the changed or removed item. */
  constructor(
    private readonly noteGuest: (hostId: string, uuid: string) => void = () => undefined,
    private readonly noteOperation: (id: string) => void = () => undefined,
  ) {}

  get guestsVersion(): number {
    return this.#guestsVersion
  }

  guests(): Iterable<GuestView> {
    return this.#guests.table.values()
  }

  guestsOf(hostId: string): Iterable<GuestView> {
    return this.#hosts.get(hostId)?.guests.values() ?? []
  }

  get guestTable() {
    return this.#guests.table
  }

  get guestBlocks(): readonly GuestBlock[] {
    return this.#guests.blocks.inOrder()
  }

  countGuests(hostId?: string): GuestCounts {
    const host = hostId === undefined ? undefined : this.#hosts.get(hostId)
    const hosts = hostId === undefined ? [...this.#hosts.values()] : host ? [host] : []
    return addCounts(hosts.map(({ totals, online }) => totals.counts(online)))
  }

  findGuest(ref: string): GuestView | undefined {
    return this.#guests.find(ref)
  }

  findGuestByName(name: string): GuestView | undefined {
    return this.#guests.findByName(name)
  }

  operations(): OperationView[] {
    return [...this.operationTable.values()]
  }

  operationsOn(hostId: string): Iterable<OperationView> {
    return this.#hosts.get(hostId)?.operations.values() ?? []
  }

  operationsOf(guestUuids: Iterable<string>): OperationView[] {
    return this.operationTable.ofGuests(guestUuids)
  }

  findOperation(id: string): OperationView | undefined {
    return this.operationTable.find(id)
  }

  *templates(): Iterable<TemplateView> {
    for (const host of this.#hosts.values()) yield* host.templates.values()
  }

  alerts(hostId?: string): AlertView[] {
    const hosts = hostId === undefined ? [...this.#hosts.values()] : [this.#hosts.get(hostId)]
    return hosts.flatMap((host) => [...(host?.alerts.values() ?? [])])
  }

  hosts(): HostView[] {
    return [...this.#hosts.values()].map((host) => host.view)
  }

  countHosts() {
    let [total, online] = [0, 0]
    for (const host of this.#hosts.values()) {
      total++
      if (host.online) online++
    }
    return { total, online }
  }

  findHost(id: string): HostView | undefined {
    return this.#hosts.get(id)?.view
  }

  /** A host's mutable state; for the watch, not for readers. */
  findState(hostId: string): HostState | undefined {
    return this.#hosts.get(hostId)
  }

  states(): Iterable<HostState> {
    return this.#hosts.values()
  }

  /** Adds a host, or replaces its record. */
  setHost(record: HostRecord): HostState {
    const host = this.#hosts.get(record.id)
    if (!host) {
      const added = new HostState(record)
      this.#hosts.set(record.id, added)
      this.changes.tell(added, { kind: 'host', after: added.view })
      return added
    }
    const before = host.view
    host.record = record
    this.#readAddress(host)
    this.changes.tell(host, { kind: 'host', before, after: host.view })
    return host
  }

  removeHost(hostId: string): void {
    const host = this.#hosts.get(hostId)
    if (!host) return
    this.replace(host, new WatchSnapshot())
    this.#hosts.delete(hostId)
    this.changes.tell(host, { kind: 'host', before: host.view })
  }

  #readAddress(host: HostState): void {
    if (!host.readAddress()) return
    this.#guests.touch(host)
    this.#guestsVersion++
  }

  setOnline(host: HostState, online: boolean): void {
    if (host.online === online) return
    const before = host.view
    this.#guests.setOnline(host, online)
    this.#guestsVersion++
    this.changes.tell(host, { kind: 'host', before, after: host.view })
  }

  disown(host: HostState, uuid: string, reason: string | undefined): void {
    if (host.disowned.get(uuid) === reason) return
    this.#guests.disown(host, uuid, reason)
    this.#guestsVersion++
  }

  /** Shows a guest as an earlier gateway knew it. */
  recall(host: HostState, guest: Guest): void {
    this.#setGuest(host, guest)
  }

  /** Applies one change of a host. */
  apply(host: HostState, event: WatchEvent): void {
    applyEvent(host, event, this.#indexes)
  }

  /** Bounds a reported operation; undefined, with a warning of the host, when it is another host's. */
  checkOperation(host: HostState, raw: Operation): OperationView | undefined {
    const operation = parseOperation(raw)
    if (!operation) return void (host.refused = 'the agent reported an operation without valid id')
    const other = this.operationTable.find(operation.id)
    if (other && other.hostId !== host.record.id)
      return void (host.refused = `operation ${operation.id} belongs to host ${other.hostId}`)
    return { hostId: host.record.id, operation }
  }

  /** Makes a complete snapshot visible at once; what it lacks is removed. */
  replace(host: HostState, snapshot: WatchSnapshot): void {
    snapshot.apply(host, this.#indexes)
  }

  #reportGuest(host: HostState, raw: Guest): void {
    if (this.#setGuest(host, raw)) this.noteGuest(host.record.id, raw.uuid)
  }

  /** @returns false when it was refused */
  #setGuest(host: HostState, raw: Guest): boolean {
    const guest = parseGuest(raw)
    if (!guest) return this.#refuse(host, 'the agent reported a guest without valid uuid, id or name')
    const before = findReported(host, guest.uuid)
    const mappings = host.mappings - (before?.portMappings.length ?? 0) + guest.portMappings.length
    if (!before && host.guests.size + host.conflicts.size >= hostLimits.guests)
      return this.#refuse(host, `the agent reported more than ${hostLimits.guests} guests`)
    if (mappings > hostLimits.mappings)
      return this.#refuse(host, 'the agent reported more port mappings than there are ports')
    host.mappings = mappings
    this.#guests.set(host, guest)
    this.#guestsVersion++
    return true
  }

  #refuse(host: HostState, why: string): false {
    host.refused = why
    return false
  }

  #deleteGuest(host: HostState, uuid: string): void {
    host.mappings -= findReported(host, uuid)?.portMappings.length ?? 0
    this.#guests.delete(host, uuid)
    host.disowned.delete(uuid)
    this.noteGuest(host.record.id, uuid)
    this.#guestsVersion++
  }

  #setOperation(host: HostState, raw: Operation): void {
    const view = this.checkOperation(host, raw)
    if (!view) return
    const before = host.operations.get(view.operation.id)
    host.operations.set(view.operation.id, view)
    this.operationTable.set(view.operation.id, view)
    this.noteOperation(view.operation.id)
    this.changes.tell(host, { kind: 'task', ...(before && { before }), after: view })
    if (host.operations.size > listedOperations) this.#dropOldestOperation(host)
  }

  #deleteOperation(host: HostState, id: string): void {
    const before = this.#dropOperation(host, id)
    if (before) this.changes.tell(host, { kind: 'task', before })
  }

  #dropOperation(host: HostState, id: string): OperationView | undefined {
    const before = host.operations.get(id)
    if (!host.operations.delete(id)) return undefined
    this.operationTable.delete(id)
    this.noteOperation(id)
    return before
  }

  /**
   * Drops a task of the guest with the most. This is not a change: the task is still in the agent's journal and can be
   * read by its id.
   */
  #dropOldestOperation(host: HostState): void {
    const crowded = mostFrequent([...host.operations.values()].map(subjectOf))
    const oldest = [...host.operations.values()].find((view) => subjectOf(view) === crowded)
    if (oldest) this.#dropOperation(host, oldest.operation.id)
  }
}

function subjectOf({ operation: { subject } }: OperationView): string {
  return `${subject?.kind ?? ''} ${subject?.id ?? ''}`
}

/** The first of the most frequent values. */
function mostFrequent(names: readonly string[]): string | undefined {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  let most: string | undefined
  for (const [name, count] of counts) if (count > (counts.get(most ?? '') ?? 0)) most = name
  return most
}

/** A guest as the host last reported it, shown or not. */
function findReported(host: HostState, uuid: string): Guest | undefined {
  return host.guests.get(uuid)?.guest ?? host.conflicts.get(uuid)?.guest
}
