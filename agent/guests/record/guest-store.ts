import type { Statement } from 'better-sqlite3'
import { KeyedMutex } from '../../../shared/async/keyed-mutex.js'
import { conflict, notFound } from '../../../shared/errors.js'
import type { Changes } from '../../state/changes.js'
import type { GuestDocument, GuestRecord, PortMapping } from './record.js'
import {
  columnsOf,
  documentOf,
  recordOf,
  selectGuest,
  selectMappings,
  type AddressRow,
  type StoredGuestRow,
  type GuestUpdate,
} from './rows.js'

type RequiredField = 'hasPassword' | 'firewall' | 'traffic' | 'expiresAtMs'

/** A new guest. Omitted fields of its document get the values of `documentDefaults`. */
export type GuestInsert = Omit<GuestRecord, 'revision' | 'statusReason' | 'ownership' | keyof GuestDocument> &
  Pick<GuestDocument, RequiredField> &
  Partial<Omit<GuestDocument, RequiredField>>

const insertMapping = `INSERT INTO port_mappings
   (guest_uuid, position, protocol, host_ip, host_port, host_port_end, container_port, container_port_end, description)
 VALUES (@uuid, @position, @protocol, @hostIp, @hostPort, @hostPortEnd, @containerPort, @containerPortEnd, @description)`

/** Stores this host's guests in the journal. Each write notifies the watchers of `Changes`. */
export class GuestStore {
  /** Mutexes by uuid. Code that reads a guest's record and then acts on it holds the guest's mutex. */
  readonly mutex = new KeyedMutex()
  readonly #byUuid: Statement<[string], StoredGuestRow>
  readonly #revision: Statement<[string], number>
  readonly #mappings: Statement<[string], string>
  readonly #addresses: Statement<[string], AddressRow>
  readonly #insertMapping: Statement<[PortMapping & { uuid: string; position: number }]>
  readonly #deleteMapping: Statement<[string, number]>
  readonly #heads: Statement<[number], Pick<StoredGuestRow, 'uuid' | 'revision'>>
  /** Records as they were last committed. They are frozen, because all readers share them. */
  readonly #records = new Map<string, GuestRecord>()
  /** The list of all guests at a revision of the journal. */
  #listed: { readonly revision: number; readonly records: readonly GuestRecord[] } | undefined

  constructor(readonly changes: Changes) {
    const { db } = changes
    this.#byUuid = db.prepare(selectGuest)
    this.#revision = db.prepare<[string], number>('SELECT revision FROM guests WHERE uuid = ?').pluck()
    this.#mappings = db.prepare<[string], string>(selectMappings).pluck()
    this.#addresses = db.prepare('SELECT * FROM guest_addresses WHERE guest_uuid = ? ORDER BY position')
    this.#insertMapping = db.prepare(insertMapping)
    this.#deleteMapping = db.prepare('DELETE FROM port_mappings WHERE guest_uuid = ? AND position = ?')
    this.#heads = db.prepare('SELECT uuid, revision FROM guests WHERE revision > ? ORDER BY id')
    changes.onChange(({ kind, key, removed }) => {
      if (kind === 'guest' && removed) this.#records.delete(key)
    })
  }

  /** Returns the guest's record. It is frozen, and stays the same object until the guest changes. */
  find(uuid: string): GuestRecord | undefined {
    const revision = this.#revision.get(uuid)
    return revision === undefined ? undefined : this.#recordAt(uuid, revision)
  }

  /** Returns the guest. @throws {BerthError} `not_found` */
  get(uuid: string): GuestRecord {
    const record = this.find(uuid)
    if (!record) throw notFound('container')
    return record
  }

  /**
   * Returns the current record of the guest. Until the guest changes, this is the cached record, because reading a
   * guest with a thousand mappings takes milliseconds. Must not be called in a transaction that has changed the guest.
   * @throws {BerthError} `not_found`
   */
  renew(record: GuestRecord): GuestRecord {
    return this.#revision.get(record.uuid) === record.revision ? record : this.get(record.uuid)
  }

  /** Lists guests by id. Returns the same list until a guest changes. @param sinceRevision only guests changed later */
  list(sinceRevision = -1): readonly GuestRecord[] {
    const { revision, db } = this.changes
    if (sinceRevision >= 0 || db.inTransaction) return this.#read(sinceRevision)
    if (this.#listed?.revision === revision) return this.#listed.records
    const read = this.#read(-1)
    const before = this.#listed?.records
    const same = before?.length === read.length && read.every((record, index) => record === before[index])
    const records = same ? before : read
    this.#listed = { revision, records }
    return records
  }

  /** Inserts a guest with allocated addresses. @throws {BerthError} `name_conflict` if uuid, id or name is taken */
  insert(guest: GuestInsert): void {
    this.changes.transaction(() => {
      this.#refuseTaken(guest)
      this.#insertRow(guest)
      this.#insertMappings(guest.uuid, guest.portMappings)
      this.#insertAddresses(guest.uuid, 4, guest.publicIpv4s)
      this.#insertAddresses(guest.uuid, 6, guest.ipv6Addresses)
    })
  }

  /** Writes the fields that differ. If no field differs, the revision does not change. */
  update(uuid: string, update: GuestUpdate): void {
    this.changes.transaction(() => {
      const row = this.#byUuid.get(uuid)
      if (!row) return
      const columns = Object.entries(columnsOf(update, row)).filter(
        ([column, value]) => value !== row[column as keyof StoredGuestRow],
      )
      if (columns.length === 0) return
      const assignments = columns.map(([column]) => `${column} = ?`).join(', ')
      this.changes.db
        .prepare(`UPDATE guests SET ${assignments}, revision = ? WHERE uuid = ?`)
        .run(...columns.map(([, value]) => value), this.changes.record('guest', uuid), uuid)
    })
  }

  /** @throws {BerthError} `name_conflict` if another guest of this host has the name, ignoring case */
  refuseTakenName(uuid: string, name: string): void {
    const taken = this.changes.db.prepare('SELECT 1 FROM guests WHERE name = ? AND uuid <> ?').get(name, uuid)
    if (taken) throw conflict('name_conflict', `name: a container named ${name} already exists`)
  }

  /** Returns the position for one more mapping of the guest. Positions are ascending, but can have gaps. */
  nextPosition(uuid: string): number {
    const last = this.changes.db
      .prepare<[string], number | null>('SELECT max(position) FROM port_mappings WHERE guest_uuid = ?')
      .pluck()
      .get(uuid)
    return (last ?? -1) + 1
  }

  /** Returns the position of a mapping. @param index index in the guest's list @throws {BerthError} `not_found` */
  getPosition(uuid: string, index: number): number {
    const position = this.changes.db
      .prepare<[string, number], number>(
        'SELECT position FROM port_mappings WHERE guest_uuid = ? ORDER BY position LIMIT 1 OFFSET ?',
      )
      .pluck()
      .get(uuid, index)
    if (position === undefined) throw notFound('port mapping')
    return position
  }

  /** Replaces the mapping at this position. The caller has checked that no other mapping uses its host ports. */
  putMapping(uuid: string, position: number, mapping: PortMapping): void {
    this.changes.transaction(() => {
      this.#deleteMapping.run(uuid, position)
      this.#insertMapping.run({ ...mapping, uuid, position })
      this.touch(uuid)
    })
  }

  removeMapping(uuid: string, position: number): void {
    this.changes.transaction(() => {
      this.#deleteMapping.run(uuid, position)
      this.touch(uuid)
    })
  }

  hasAddress(address: string): boolean {
    return this.changes.db.prepare('SELECT 1 FROM guest_addresses WHERE address = ?').get(address) !== undefined
  }

  /** Replaces all addresses of one family. The allocator has checked that the new addresses are free. */
  setAddresses(uuid: string, family: 4 | 6, addresses: readonly string[]): void {
    this.changes.transaction(() => {
      this.changes.db.prepare('DELETE FROM guest_addresses WHERE guest_uuid = ? AND family = ?').run(uuid, family)
      this.#insertAddresses(uuid, family, addresses)
      this.touch(uuid)
    })
  }

  /** Removes the guest and frees its mappings and addresses. */
  remove(uuid: string): void {
    this.changes.transaction(() => {
      const { changes: removed } = this.changes.db.prepare('DELETE FROM guests WHERE uuid = ?').run(uuid)
      if (removed > 0) this.changes.record('guest', uuid, true)
    })
  }

  /** True if any guest has a login. Logins can only be read with the secret key. */
  hasLogins(): boolean {
    return this.changes.db.prepare('SELECT 1 FROM guests WHERE login IS NOT NULL LIMIT 1').get() !== undefined
  }

  /** Returns the lowest index below `slots` of a free range of user ids. Undefined: all ranges are taken. */
  freeUserIdSlot(slots: number): number | undefined {
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

  #read(sinceRevision: number): GuestRecord[] {
    const heads = this.#heads.all(sinceRevision)
    return heads.flatMap(({ uuid, revision }) => this.#recordAt(uuid, revision) ?? [])
  }

  /** Reads a record. Does not cache it in a transaction, because a rollback lets another change reuse the revision. */
  #recordAt(uuid: string, revision: number): GuestRecord | undefined {
    const kept = this.#records.get(uuid)
    if (kept?.revision === revision) return kept
    const row = this.#byUuid.get(uuid)
    if (!row) return undefined
    const record = recordOf(row, this.#mappings.get(uuid) ?? '[]', this.#addresses.all(uuid))
    if (!this.changes.db.inTransaction) this.#records.set(uuid, freeze(record))
    return record
  }

  #refuseTaken(guest: GuestInsert): void {
    const taken = this.changes.db
      .prepare<[string, number, string], { uuid: string }>(
        'SELECT uuid FROM guests WHERE uuid = ? OR id = ? OR name = ?',
      )
      .get(guest.uuid, guest.id, guest.name)
    if (taken) throw conflict('name_conflict', 'a container with this name, id or UUID already exists')
  }

  #insertRow(guest: GuestInsert): void {
    const values = {
      uuid: guest.uuid,
      id: guest.id,
      name: guest.name,
      spec: JSON.stringify({ ...guest.spec, ...documentOf(guest) }),
      status: guest.status,
      wanted: guest.wanted,
      idmap_slot: guest.userIdSlot,
      ipv4: guest.ipv4,
      mac: guest.mac,
      login: guest.login,
      created_at_ms: guest.createdAtMs,
      revision: this.changes.record('guest', guest.uuid),
    }
    const columns = Object.keys(values)
    this.changes.db
      .prepare(`INSERT INTO guests (${columns.join(', ')}) VALUES (${columns.map((c) => `@${c}`).join(', ')})`)
      .run(values)
  }

  /** Gives the guest a new revision (change number), after a change of its rows in another table. */
  touch(uuid: string): void {
    this.changes.db
      .prepare('UPDATE guests SET revision = ? WHERE uuid = ?')
      .run(this.changes.record('guest', uuid), uuid)
  }

  #insertMappings(uuid: string, mappings: readonly PortMapping[]): void {
    for (const [position, mapping] of mappings.entries()) this.#insertMapping.run({ ...mapping, uuid, position })
  }

  #insertAddresses(uuid: string, family: 4 | 6, addresses: readonly string[]): void {
    const insert = this.changes.db.prepare(
      'INSERT INTO guest_addresses (address, guest_uuid, family, position) VALUES (?, ?, ?, ?)',
    )
    for (const [position, address] of addresses.entries()) insert.run(address, uuid, family, position)
  }
}

function freeze<T extends object>(value: T): T {
  for (const part of Object.values(value))
    if (typeof part === 'object' && part !== null && !Object.isFrozen(part)) freeze(part as object)
  return Object.freeze(value)
}
