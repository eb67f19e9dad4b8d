import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { GuestIndex } from './guest-index.js'
import type { HostState } from './host-state.js'
import { parseGuest } from './parse-events.js'
import { UnsavedGuests } from './unsaved-guests.js'

/** Maximum numbers of guests and port mappings that the gateway records for one host. */
const hostLimits = { guests: 10_000, mappings: 2 * 65_535 } as const

/** Adds reported guests to the fleet view, within limits for each host. */
export class ReportedGuests {
  readonly unsaved = new UnsavedGuests()

  constructor(private readonly index: GuestIndex) {}

  set(host: HostState, raw: Guest): void {
    if (isShownAndTold(host, raw)) return
    if (this.recall(host, raw)) this.unsaved.add({ hostId: host.record.id, uuid: raw.uuid })
  }

  /** Shows a guest in the state that the store contains. @returns false if the guest was rejected */
  recall(host: HostState, raw: Guest): boolean {
    const guest = parseGuest(raw)
    if (!guest) return refuse(host, 'the agent reported a guest without valid uuid, id or name')
    const before = findReported(host, guest.uuid)
    const mappings = host.mappings - (before?.portMappings.length ?? 0) + guest.portMappings.length
    if (!before && host.guests.size + host.conflicts.size >= hostLimits.guests)
      return refuse(host, `the agent reported more than ${hostLimits.guests} guests`)
    if (mappings > hostLimits.mappings)
      return refuse(host, 'the agent reported more port mappings than there are ports')
    host.mappings = mappings
    this.index.set(host, guest)
    return true
  }

  delete(host: HostState, uuid: string): void {
    host.mappings -= findReported(host, uuid)?.portMappings.length ?? 0
    this.index.delete(host, uuid)
    host.disowned.delete(uuid)
    host.outdated.delete(uuid)
    this.unsaved.add({ hostId: host.record.id, uuid })
  }

  /** Updates the public address and the maintenance window that each guest of the host shows. */
  readShared(host: HostState): void {
    if (host.readShared()) this.index.touch(host)
  }
}

/** True if the view already shows this guest, as read from the store, and listeners need no notification. */
function isShownAndTold({ guests, newsAfter = Infinity }: HostState, guest: Guest): boolean {
  return guests.get(guest.uuid)?.guest === guest && guest.revision <= newsAfter
}

function refuse(host: HostState, why: string): false {
  host.refused = why
  return false
}

/** Finds the guest as the host last reported it, even if the guest is hidden. */
export function findReported(host: HostState, uuid: string): Guest | undefined {
  return host.guests.get(uuid)?.guest ?? host.conflicts.get(uuid)?.guest
}
