import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { KeyedCondition } from '../../shared/async/keyed-condition.js'
import type { AlertView, FleetView, GuestView, HostView, OperationView, TemplateView } from './contract.js'
import { journalLane, onlineLane, recordLane, removalLane, type ChangeMark } from './change-mark.js'
import { FleetChanges } from './fleet-changes.js'
import { GuestIndex } from './guest-index.js'
import { planNewsAfter, type HostPosition, type JournalPosition } from './host-position.js'
import type { HostRecord } from './host-record.js'
import { addCounts, type GuestCounts } from './guest-status.js'
import { HostState } from './host-state.js'
import { planCommonSize, type GuestSize } from './host-totals.js'
import { noAllocation, type Allocation } from '../../shared/allocation.js'
import type { GuestBlock } from './lists/guest-blocks.js'
import type { OperationTable } from './lists/operation-table.js'
import { ReportedAlerts } from './reported-alerts.js'
import { ReportedGuests } from './reported-guests.js'
import { ReportedOperations } from './reported-operations.js'
import { WatchSnapshot } from './snapshot.js'
import type { UnsavedGuests } from './unsaved-guests.js'
import { applyEvent, type ReportedState, type WatchEvent } from './watch-kinds.js'

/** The fleet in memory. The events of each agent are applied in the order in which they were sent. */
export class FleetState implements FleetView {
  readonly #hosts = new Map<string, HostState>()
  /** Last revision that the previous gateway process received, by host id. Removed when that host reports. */
  readonly #former = new Map<string, JournalPosition>()
  /** Ids of hosts that were online when the previous gateway process ended. */
  readonly #formerlyOnline = new Set<string>()
  readonly changes = new FleetChanges()
  /** Condition that is notified, by host id, when a host's connection or data changes. */
  readonly hostChanged = new KeyedCondition()
  readonly #guests = new GuestIndex(this.changes)
  readonly #reported: ReportedState = {
    guests: new ReportedGuests(this.#guests),
    operations: new ReportedOperations(this.changes),
    alerts: new ReportedAlerts(this.changes),
    changes: this.changes,
  }

  get unsavedGuests(): UnsavedGuests {
    return this.#reported.guests.unsaved
  }

  /** Condition that is notified, by operation id, when an operation changes. */
  get operationChanged(): KeyedCondition {
    return this.#reported.operations.changed
  }

  get operationTable(): OperationTable {
    return this.#reported.operations.table
  }

  get guestsVersion(): number {
    return this.#guests.version
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

  allocationOf(hostId: string): Allocation {
    return this.#hosts.get(hostId)?.allocated ?? noAllocation
  }

  commonSize(): GuestSize | undefined {
    return planCommonSize([...this.#hosts.values()].flatMap(({ totals }) => [...totals.sizes]))
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

  latestOperation(guestUuid: string, action: string): OperationView | undefined {
    return this.operationTable.latestOf(guestUuid, action)
  }

  *templates(): Iterable<TemplateView> {
    for (const host of this.#hosts.values()) yield* host.templates.values()
  }

  alerts(hostId?: string): AlertView[] {
    const hosts = hostId === undefined ? [...this.#hosts.values()] : [this.#hosts.get(hostId)]
    return hosts.flatMap((host) => (host ? this.#reported.alerts.listOf(host) : []))
  }

  get onlineHostIds(): string[] {
    return [...this.#hosts.values()].filter(({ online }) => online).map(({ record }) => record.id)
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

  findState(hostId: string): HostState | undefined {
    return this.#hosts.get(hostId)
  }

  states(): Iterable<HostState> {
    return this.#hosts.values()
  }

  setHost(record: HostRecord): HostState {
    const host = this.#hosts.get(record.id)
    if (!host) {
      const added = new HostState(record)
      this.#hosts.set(record.id, added)
      this.changes.tell(added, { kind: 'host', after: added.view }, recordMark(added))
      return added
    }
    const before = host.view
    host.record = record
    this.#reported.guests.readShared(host)
    this.changes.tell(host, { kind: 'host', before, after: host.view }, recordMark(host))
    return host
  }

  removeHost(hostId: string): void {
    const host = this.#hosts.get(hostId)
    if (!host) return
    this.replace(host, new WatchSnapshot())
    this.#hosts.delete(hostId)
    this.changes.tell(host, { kind: 'host', before: host.view }, { lane: removalLane(hostId), revision: 2 })
  }

  setOnline(host: HostState, online: boolean): void {
    if (host.online === online) return
    const before = host.view
    this.#guests.setOnline(host, online)
    this.changes.tell(host, { kind: 'host', before, after: host.view }, onlineMark(host))
  }

  disown(host: HostState, uuid: string, reason: string | undefined): void {
    this.#guests.disown(host, uuid, reason)
  }

  recall(host: HostState, guest: Guest): void {
    this.#reported.guests.recall(host, guest)
  }

  /** @param mark position of the event in the journal of the host; undefined: the event has no position */
  apply(host: HostState, event: WatchEvent, mark?: ChangeMark): void {
    this.changes.during(mark, () => applyEvent(host, event, this.#reported))
  }

  /** See `ReportedOperations.check`. */
  checkOperation(host: HostState, raw: Operation): OperationView | undefined {
    return this.#reported.operations.check(host, raw)
  }

  /**
   * Shows a complete snapshot of a host in one step, and removes the host's items that the snapshot does not contain.
   * @param position revision of the journal at which the snapshot was taken; undefined: the host is removed
   */
  replace(host: HostState, snapshot: WatchSnapshot, position?: JournalPosition): void {
    const { id } = host.record
    const former = this.#former.get(id)
    host.newsAfter = position && host.epoch === '' ? planNewsAfter(former, position) : undefined
    const isGap = host.epoch === '' && host.newsAfter === undefined
    this.#former.delete(id)
    const mark = position
      ? { lane: journalLane(id, position.epoch), revision: position.revision }
      : { lane: removalLane(id), revision: 1 }
    snapshot.apply(host, this.#reported, mark)
    host.newsAfter = undefined
    if (position) this.changes.reach({ ...mark, ...(isGap && { isGap }) })
  }

  /** Sets each host's last revision that the previous process passed to listeners. Listeners get only later changes. */
  resume(positions: Iterable<HostPosition>): void {
    for (const { id, epoch, revision, online } of positions) {
      if (epoch !== '') this.#former.set(id, { epoch, revision })
      if (online) this.#formerlyOnline.add(id)
    }
  }

  /** True if the host was online when the previous gateway process ended, see `resume`. */
  wasOnline(hostId: string): boolean {
    return this.#formerlyOnline.has(hostId)
  }

  /** Yields the present positions of each host's record and connection. */
  *hostMarks(): Iterable<ChangeMark> {
    for (const host of this.#hosts.values()) {
      yield recordMark(host)
      yield onlineMark(host)
    }
  }

  /**
   * Yields for each host the last revision that the gateway has received from its agent's journal. Until the first
   * complete report of the host, this is the revision of the previous gateway process.
   */
  *positions(): Iterable<HostPosition> {
    for (const host of this.#hosts.values()) {
      const { id, name } = host.record
      const { epoch, revision } = (host.epoch === '' && this.#former.get(id)) || host
      yield { id, name, online: host.online, epoch, revision }
    }
  }
}

function recordMark({ record: { id, version } }: HostState): ChangeMark {
  return { lane: recordLane(id), revision: version }
}

function onlineMark({ record: { id }, online }: HostState): ChangeMark {
  return { lane: onlineLane(id), revision: online ? 1 : 0 }
}
