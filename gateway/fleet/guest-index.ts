import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { FleetChanges } from './fleet-changes.js'
import { GuestEntry, type HostState } from './host-state.js'
import { GuestBlocks } from './lists/guest-blocks.js'
import { GuestTable } from './lists/guest-table.js'
import type { TableSlot } from '../lists/table.js'

/**
 * Guests of all hosts by uuid, id and name, which are unique in the fleet. If two guests have the same id, name or
 * uuid, only the first guest is shown. The second guest is stored in the `conflicts` of its host.
 */
export class GuestIndex {
  readonly table = new GuestTable<GuestEntry>()
  readonly blocks = new GuestBlocks()
  readonly #byId = new Map<number, TableSlot<GuestEntry>>()
  readonly #byName = new Map<string, TableSlot<GuestEntry>>()
  /** Hosts with guests that are not shown because of a conflict. */
  readonly #waiting = new Set<HostState>()

  #version = 0

  /** @param changes gets each change of shown data; a guest whose id has changed is reported as removed and added */
  constructor(private readonly changes = new FleetChanges()) {}

  /** Version of the data that lists of guests show. Each change of this data changes the version. */
  get version(): number {
    return this.#version
  }

  find(ref: string): GuestEntry | undefined {
    // Accepts ids only in their usual form, without leading zeros.
    if (/^[1-9]\d{0,14}$/.test(ref)) return this.#byId.get(Number(ref))?.item
    return this.table.find(ref.toLowerCase()) ?? this.findByName(ref)
  }

  findByName(name: string): GuestEntry | undefined {
    return this.#byName.get(name.toLowerCase())?.item
  }

  set(host: HostState, guest: Guest): void {
    const before = host.guests.get(guest.uuid)
    const entry = new GuestEntry(host, guest)
    if (before && sameKeys(before.guest, guest)) return void this.#put(host, entry)
    // For a guest that keeps its id but has a new name, listeners get one change instead of a removal and an addition.
    const renamed = before?.guest.id === guest.id ? before : undefined
    if (renamed) this.#remove(host, renamed)
    else if (before) this.#unplace(host, before)
    const reason = this.#findClash(host, guest)
    if (reason === undefined) {
      host.conflicts.delete(guest.uuid)
      this.#place(host, entry, renamed)
    } else {
      this.#conflict(host, guest, reason)
      this.#waiting.add(host)
      if (renamed) this.changes.tell(host, { kind: 'guest', before: renamed })
    }
    if (before) this.#promote(before.guest)
  }

  /** Hides a guest. Listeners get a change of the host if the host's number of fenced guests changes. */
  #conflict(host: HostState, guest: Guest, reason: string): void {
    const before = host.view
    host.conflicts.set(guest.uuid, { guest, reason })
    const after = host.view
    if (after.fenced !== before.fenced) this.changes.tell(host, { kind: 'host', before, after })
  }

  delete(host: HostState, uuid: string): void {
    host.conflicts.delete(uuid)
    const before = host.guests.get(uuid)
    if (!before) return
    const isMoved = this.#replaceMoved(host, before)
    if (!isMoved) this.#unplace(host, before)
    this.#promote(before.guest)
  }

  /** Shows a guest on the other host that reports it, as one change. @returns false if there is no such host */
  #replaceMoved(host: HostState, before: GuestEntry): boolean {
    const { uuid } = before.guest
    const next = [...this.#waiting].find(
      (other) => other !== host && other.conflicts.has(uuid) && !other.disowned.has(uuid),
    )
    const guest = next?.conflicts.get(uuid)?.guest
    if (!next || !guest || !sameKeys(guest, before.guest)) return false
    this.#remove(host, before)
    next.conflicts.delete(uuid)
    this.#place(next, new GuestEntry(next, guest), before)
    return true
  }

  /**
   * @param reason why the guest does not belong to this host, according to the store; undefined: it belongs to the host
   */
  disown(host: HostState, uuid: string, reason: string | undefined): void {
    if (host.disowned.get(uuid) === reason) return
    const guest = host.guests.get(uuid)?.guest ?? host.conflicts.get(uuid)?.guest
    if (reason === undefined) host.disowned.delete(uuid)
    else host.disowned.set(uuid, reason)
    if (!guest) return
    this.delete(host, uuid)
    this.set(host, guest)
  }

  /** Marks a host as online or offline, which changes the shown status of all its guests. */
  setOnline(host: HostState, online: boolean): void {
    this.table.changeAll(host.guests.keys(), ['status'], () => (host.online = online))
    this.touch(host)
  }

  /** Call this after a change of host data that is shown in lists of guests. */
  touch(host: HostState): void {
    for (const { guest } of host.guests.values()) this.blocks.touch(guest.id)
    this.#version++
  }

  #findClash(host: HostState, guest: Guest): string | undefined {
    const disowned = host.disowned.get(guest.uuid)
    if (disowned !== undefined) return disowned
    const other = this.table.find(guest.uuid) ?? this.#byId.get(guest.id)?.item ?? this.findByName(guest.name)
    if (!other) return undefined
    const { name, id, uuid } = other.guest
    return `guest ${guest.name} (${guest.id}, ${guest.uuid}) clashes with ${name} (${id}, ${uuid}) of host ${other.hostId} and is not shown`
  }

  /** @param formerly previous entry of the guest, if the guest has moved to this host or has another name now */
  #place(host: HostState, entry: GuestEntry, formerly?: GuestEntry): void {
    const slot = this.#put(host, entry, formerly)
    this.#byId.set(entry.guest.id, slot)
    this.#byName.set(entry.guest.name.toLowerCase(), slot)
  }

  /** Adds a guest, or replaces the entry of the guest with the same uuid, id and name. */
  #put(host: HostState, entry: GuestEntry, formerly?: GuestEntry): TableSlot<GuestEntry> {
    const { uuid } = entry.guest
    const own = host.guests.get(uuid)
    if (own) host.totals.remove(own.guest)
    const before = own ?? formerly
    host.totals.add(entry.guest)
    host.guests.set(uuid, entry)
    this.blocks.set(entry)
    const slot = this.table.set(uuid, entry)
    this.#version++
    this.changes.tell(host, { kind: 'guest', ...(before && { before }), after: entry })
    return slot
  }

  #unplace(host: HostState, entry: GuestEntry): void {
    this.#remove(host, entry)
    this.changes.tell(host, { kind: 'guest', before: entry })
  }

  #remove(host: HostState, { guest }: GuestEntry): void {
    host.guests.delete(guest.uuid)
    host.totals.remove(guest)
    this.blocks.delete(guest.id)
    this.table.delete(guest.uuid)
    this.#byId.delete(guest.id)
    this.#byName.delete(guest.name.toLowerCase())
    this.#version++
  }

  /** Shows guests that were hidden because they conflicted with a removed guest. */
  #promote(gone: Guest): void {
    for (const host of this.#waiting) {
      if (host.conflicts.size === 0) this.#waiting.delete(host)
      for (const { guest } of [...host.conflicts.values()]) if (shareKey(guest, gone)) this.set(host, guest)
    }
  }
}

function sameKeys(a: Guest, b: Guest): boolean {
  return a.id === b.id && a.name.toLowerCase() === b.name.toLowerCase()
}

function shareKey(a: Guest, b: Guest): boolean {
  return a.uuid === b.uuid || a.id === b.id || a.name.toLowerCase() === b.name.toLowerCase()
}
