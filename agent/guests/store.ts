import type { Statement } from 'better-sqlite3'
import { conflict, notFound } from '../../shared/errors.js'
import type { Changes } from '../state/changes.js'
import type { GuestRecord, GuestSpec, GuestStatus, PortMapping } from './record.js'

interface GuestRow {
  uuid: string
  id: number
  name: string
  spec: string
  status: GuestStatus
  status_reason: string
  wanted: 'running' | 'stopped'
  idmap_slot: number
  ipv4: string
  mac: string
  login: string | null
  has_password: number
  initialized: number
  created_at_ms: number
  revision: number
}

interface MappingRow {
  guest_uuid: string
  protocol: 'tcp' | 'udp'
  host_port: number
  container_port: number
  description: string
}

export type GuestInsert = Omit<GuestRecord, 'revision' | 'initialized' | 'statusReason'>

/** Fields that change without being part of the order. */
export type GuestUpdate = Partial<Pick<GuestRecord, 'status' | 'statusReason' | 'wanted' | 'initialized'>>

/** The guests of this host. Writes are transactions of `Changes` and seen by watchers. */
export class GuestStore {
  readonly #byUuid: Statement<[string], GuestRow>
  readonly #mappings: Statement<[string], MappingRow>

  constructor(readonly changes: Changes) {
    const { db } = changes
    this.#byUuid = db.prepare('SELECT * FROM guests WHERE uuid = ?')
    this.#mappings = db.prepare('SELECT * FROM port_mappings WHERE guest_uuid = ? ORDER BY position')
  }

  find(uuid: string): GuestRecord | undefined {
    const row = this.#byUuid.get(uuid)
    return row && this.#record(row, this.#mappings.all(uuid))
  }

  /** @throws {BerthError} `not_found` */
  get(uuid: string): GuestRecord {
    const record = this.find(uuid)
    if (!record) throw notFound('container')
    return record
  }

  /** Ordered by id. */
  list(sinceRevision = -1): GuestRecord[] {
    const rows = this.changes.db
      .prepare<[number], GuestRow>('SELECT * FROM guests WHERE revision > ? ORDER BY id')
      .all(sinceRevision)
    const mappings = new Map<string, MappingRow[]>()
    const all = this.changes.db
      .prepare<[], MappingRow>('SELECT * FROM port_mappings ORDER BY guest_uuid, position')
      .all()
    for (const row of all) {
      const list = mappings.get(row.guest_uuid)
      if (list) list.push(row)
      else mappings.set(row.guest_uuid, [row])
    }
    return rows.map((row) => this.#record(row, mappings.get(row.uuid) ?? []))
  }

  /** @throws {BerthError} `name_conflict` when uuid, id or name is taken; other uniqueness is the allocator's */
  insert(guest: GuestInsert): void {
    this.changes.transaction(() => {
      this.#refuseTaken(guest)
      const revision = this.changes.record('guest', guest.uuid)
      this.changes.db
        .prepare(
          `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, login, has_password, created_at_ms, revision)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          guest.uuid,
          guest.id,
          guest.name,
          JSON.stringify(guest.spec),
          guest.status,
          guest.wanted,
          guest.idmapSlot,
          guest.ipv4,
          guest.mac,
          guest.login,
          Number(guest.hasPassword),
          guest.createdAtMs,
          revision,
        )
      this.#insertMappings(guest.uuid, guest.portMappings)
    })
  }

  /** Writes what differs; nothing differs: no new revision. */
  update(uuid: string, update: GuestUpdate): void {
    this.changes.transaction(() => {
      const row = this.#byUuid.get(uuid)
      if (!row) return
      const next = {
        status: update.status ?? row.status,
        statusReason: update.statusReason ?? row.status_reason,
        wanted: update.wanted ?? row.wanted,
        initialized: update.initialized === undefined ? row.initialized : Number(update.initialized),
      }
      const same =
        next.status === row.status &&
        next.statusReason === row.status_reason &&
        next.wanted === row.wanted &&
        next.initialized === row.initialized
      if (same) return
      this.changes.db
        .prepare(
          'UPDATE guests SET status = ?, status_reason = ?, wanted = ?, initialized = ?, revision = ? WHERE uuid = ?',
        )
        .run(
          next.status,
          next.statusReason,
          next.wanted,
          next.initialized,
          this.changes.record('guest', uuid),
          uuid,
        )
    })
  }

  /** With its mappings and addresses, which are free from then on. */
  remove(uuid: string): void {
    this.changes.transaction(() => {
      const { changes: removed } = this.changes.db.prepare('DELETE FROM guests WHERE uuid = ?').run(uuid)
      if (removed > 0) this.changes.record('guest', uuid, true)
    })
  }

  /** Does any guest's login need the secret key? */
  hasLogins(): boolean {
    return this.changes.db.prepare('SELECT 1 FROM guests WHERE login IS NOT NULL LIMIT 1').get() !== undefined
  }

  /** Lowest free idmap slot below `slots`; undefined when all are taken. */
  freeIdmapSlot(slots: number): number | undefined {
    const row = this.changes.db
      .prepare<[], { slot: number }>(
        `SELECT 0 AS slot WHERE NOT EXISTS (SELECT 1 FROM guests WHERE idmap_slot = 0)
         UNION ALL
         SELECT g.idmap_slot + 1 FROM guests g
           WHERE NOT EXISTS (SELECT 1 FROM guests h WHERE h.idmap_slot = g.idmap_slot + 1)
         ORDER BY slot LIMIT 1`,
      )
      .get()
    return row && row.slot < slots ? row.slot : undefined
  }

  #refuseTaken(guest: GuestInsert): void {
    const taken = this.changes.db
      .prepare<[string, number, string], { uuid: string }>(
        'SELECT uuid FROM guests WHERE uuid = ? OR id = ? OR name = ?',
      )
      .get(guest.uuid, guest.id, guest.name)
    if (taken) throw conflict('name_conflict', `a container with this name, id or uuid exists already`)
  }

  #insertMappings(uuid: string, mappings: readonly PortMapping[]): void {
    const insert = this.changes.db.prepare(
      `INSERT INTO port_mappings (guest_uuid, position, protocol, host_port, container_port, description)
       VALUES (?, ?, ?, ?, ?, ?)`,
    )
    for (const [position, m] of mappings.entries())
      insert.run(uuid, position, m.protocol, m.hostPort, m.containerPort, m.description)
  }

  #record(row: GuestRow, mappings: MappingRow[]): GuestRecord {
    return {
      uuid: row.uuid,
      id: row.id,
      name: row.name,
      spec: JSON.parse(row.spec) as GuestSpec,
      status: row.status,
      statusReason: row.status_reason,
      wanted: row.wanted,
      idmapSlot: row.idmap_slot,
      ipv4: row.ipv4,
      mac: row.mac,
      login: row.login,
      hasPassword: row.has_password === 1,
      initialized: row.initialized === 1,
      portMappings: mappings.map((m) => ({
        protocol: m.protocol,
        hostPort: m.host_port,
        containerPort: m.container_port,
        description: m.description,
      })),
      createdAtMs: row.created_at_ms,
      revision: row.revision,
    }
  }
}
