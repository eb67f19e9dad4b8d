import type { Statement } from 'better-sqlite3'
import { GuestStore } from '../../agent/guests/store.js'
import { Changes } from '../../agent/state/changes.js'
import { openDatabase, type Database } from '../../agent/state/database.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'

/**
 * An agent's journal in memory that has of simulated guests what its rules for ports and addresses look at, so that
 * those who simulate an agent refuse by the agent's own code.
 */
export class SimulatedJournal {
  readonly changes = new Changes(openDatabase(':memory:'))
  readonly store = new GuestStore(this.changes)
  /** Revisions of those that are there. */
  readonly #seen = new Map<string, number>()
  readonly #insert: Record<'guest' | 'mapping' | 'address', Statement>
  #ids = 0

  constructor(private readonly guests: () => Iterable<Guest>) {
    this.#insert = statementsOf(this.changes.db)
  }

  /** What the guests have now. */
  sync(): void {
    const gone = new Set(this.#seen.keys())
    this.changes.db.transaction(() => {
      for (const guest of this.guests()) {
        gone.delete(guest.uuid)
        if (this.#seen.get(guest.uuid) !== guest.revision) this.#put(guest)
      }
      for (const uuid of gone) this.#remove(uuid)
    })()
  }

  #put(guest: Guest): void {
    this.#remove(guest.uuid)
    const { guest: insertGuest, mapping: insertMapping, address: insertAddress } = this.#insert
    const { uuid, portMappings, publicIpv4s, ipv6Addresses } = guest
    const id = ++this.#ids
    // Names and private addresses are the simulation's own matter.
    insertGuest.run(uuid, id, uuid, id, uuid, uuid)
    portMappings.forEach(({ hostPortEnd, ...mapping }, position) =>
      insertMapping.run({ uuid, position, hostPortEnd: hostPortEnd || mapping.hostPort, ...mapping }),
    )
    publicIpv4s.forEach((address, position) => insertAddress.run(address, uuid, 4, position))
    ipv6Addresses.forEach((address, position) => insertAddress.run(address, uuid, 6, position))
    this.#seen.set(uuid, guest.revision)
  }

  #remove(uuid: string): void {
    if (this.#seen.delete(uuid)) this.changes.db.prepare('DELETE FROM guests WHERE uuid = ?').run(uuid)
  }
}

function statementsOf(db: Database): Record<'guest' | 'mapping' | 'address', Statement> {
  const guestColumns = 'uuid, id, name, idmap_slot, ipv4, mac, spec, status, wanted, created_at_ms, revision'
  const mappingColumns =
    'guest_uuid, position, protocol, host_ip, host_port, host_port_end, container_port, container_port_end'
  return {
    guest: db.prepare(
      `INSERT INTO guests (${guestColumns}) VALUES (?, ?, ?, ?, ?, ?, '{}', 'running', 'running', 0, 0)`,
    ),
    mapping: db.prepare(
      `INSERT INTO port_mappings (${mappingColumns}) VALUES
       (@uuid, @position, @protocol, @hostIp, @hostPort, @hostPortEnd, @containerPort, @containerPortEnd)`,
    ),
    address: db.prepare(
      'INSERT INTO guest_addresses (address, guest_uuid, family, position) VALUES (?, ?, ?, ?)',
    ),
  }
}
