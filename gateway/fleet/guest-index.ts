import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { GuestEntry, type HostState } from './host-state.js'

/**
 * Guests of all hosts by uuid, id and name. Each of the three is unique in the fleet: of two that clash the
 * first stays and the other waits among its host's conflicts.
 */
export class GuestIndex {
  readonly #byUuid = new Map<string, GuestEntry>()
  readonly #byId = new Map<number, GuestEntry>()
  readonly #byName = new Map<string, GuestEntry>()
  /** Hosts with conflicts. */
  readonly #waiting = new Set<HostState>()

  values(): Iterable<GuestEntry> {
    return this.#byUuid.values()
  }

  find(ref: string): GuestEntry | undefined {
    // Only as ids are written: 02 is no id, and no name either.
    if (/^[1-9]\d{0,14}$/.test(ref)) return this.#byId.get(Number(ref))
    const lower = ref.toLowerCase()
    return this.#byUuid.get(lower) ?? this.#byName.get(lower)
  }

  set(host: HostState, guest: Guest): void {
    const before = host.guests.get(guest.uuid)
    const entry = new GuestEntry(host, guest)
    if (before && sameKeys(before.guest, guest)) return this.#place(host, entry)
    if (before) this.#unplace(host, before)
    const reason = this.#findClash(host, guest)
    if (reason === undefined) {
      host.conflicts.delete(guest.uuid)
      this.#place(host, entry)
    } else {
      host.conflicts.set(guest.uuid, { guest, reason })
      this.#waiting.add(host)
    }
    if (before) this.#promote(before.guest)
  }

  delete(host: HostState, uuid: string): void {
    host.conflicts.delete(uuid)
    const before = host.guests.get(uuid)
    if (!before) return
    this.#unplace(host, before)
    this.#promote(before.guest)
  }

  /** What the store says of an owner overrules who came first. `undefined`: it is this host's. */
  disown(host: HostState, uuid: string, reason: string | undefined): void {
    const guest = host.guests.get(uuid)?.guest ?? host.conflicts.get(uuid)?.guest
    if (reason === undefined) host.disowned.delete(uuid)
    else host.disowned.set(uuid, reason)
    if (!guest) return
    this.delete(host, uuid)
    this.set(host, guest)
  }

  #findClash(host: HostState, guest: Guest): string | undefined {
    const disowned = host.disowned.get(guest.uuid)
    if (disowned !== undefined) return disowned
    const other =
      this.#byUuid.get(guest.uuid) ?? this.#byId.get(guest.id) ?? this.#byName.get(guest.name.toLowerCase())
    if (!other) return undefined
    const { name, id, uuid } = other.guest
    return `guest ${guest.name} (${guest.id}, ${guest.uuid}) clashes with ${name} (${id}, ${uuid}) of host ${other.hostId} and is not shown`
  }

  #place(host: HostState, entry: GuestEntry): void {
    host.guests.set(entry.guest.uuid, entry)
    this.#byUuid.set(entry.guest.uuid, entry)
    this.#byId.set(entry.guest.id, entry)
    this.#byName.set(entry.guest.name.toLowerCase(), entry)
  }

  #unplace(host: HostState, entry: GuestEntry): void {
    host.guests.delete(entry.guest.uuid)
    this.#byUuid.delete(entry.guest.uuid)
    this.#byId.delete(entry.guest.id)
    this.#byName.delete(entry.guest.name.toLowerCase())
  }

  /** Gives those that waited for one of a guest's keys another try. */
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
