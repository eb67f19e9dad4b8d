import { firstOwnership, type OwnershipRole } from '../ownership/plan-ownership.js'
import {
  documentDefaults,
  type GuestDocument,
  type GuestLimits,
  type GuestRecord,
  type GuestSpec,
  type GuestStatus,
  type PortMapping,
} from './record.js'

/** A row of the table `guests`, as SQLite returns it. */
export interface StoredGuestRow {
  uuid: string
  id: number
  name: string
  /** The guest's spec and document (`StoredGuest`) as JSON. */
  spec: string
  status: GuestStatus
  status_reason: string
  wanted: 'running' | 'stopped'
  idmap_slot: number
  ipv4: string
  mac: string
  login: string | null
  created_at_ms: number
  revision: number
  /** Columns of `guest_owners`; null for a guest that has never moved. */
  role: OwnershipRole | null
  generation: number | null
  move_id: string | null
}

/** Selects a guest with its ownership. The parameter is the guest's uuid. */
export const selectGuest = `
  SELECT guests.*, role, generation, move_id
  FROM guests LEFT JOIN guest_owners ON guest_uuid = uuid WHERE uuid = ?`

/**
 * Selects all mappings of a guest as one JSON text, which takes a third of the time of separate rows. Each mapping is
 * an array of its columns. The parameter is the guest's uuid.
 */
export const selectMappings = `
  SELECT json_group_array(
    json_array(protocol, host_ip, host_port, host_port_end, container_port, container_port_end, description)
    ORDER BY position
  ) FROM port_mappings WHERE guest_uuid = ?`

export interface AddressRow {
  guest_uuid: string
  family: 4 | 6
  address: string
}

/** The stored document of a guest. If an older version of the agent wrote the document, newer fields are missing. */
export type StoredGuest = GuestSpec & Partial<GuestDocument>

/** The fields of a guest that can change. Limits and template belong to its spec. */
export type GuestUpdate = Partial<
  Pick<GuestRecord, 'name' | 'status' | 'statusReason' | 'wanted' | 'login'> &
    GuestDocument & { limits: GuestLimits; templateId: string }
>

/** Columns of `guests` that change during a guest's life. */
type MutableColumns = Pick<StoredGuestRow, 'spec' | 'name' | 'status' | 'status_reason' | 'wanted' | 'login'>

const documentKeys = Object.keys(documentDefaults) as (keyof GuestDocument)[]

/** Returns those fields of a record or an update that are stored in the guest's JSON document. */
export function documentOf(part: Partial<GuestDocument>): Partial<GuestDocument> {
  return Object.fromEntries(documentKeys.flatMap((key) => (part[key] === undefined ? [] : [[key, part[key]]])))
}

/** Returns the columns that an update writes. Keeps the order of `spec`'s fields, so equal specs have equal JSON. */
export function columnsOf(update: GuestUpdate, row: StoredGuestRow): Partial<MutableColumns> {
  const { name, status, statusReason, wanted, login, limits, templateId } = update
  const document = {
    ...(limits && { limits }),
    ...(templateId !== undefined && { templateId }),
    ...documentOf(update),
  }
  const isChanged = Object.keys(document).length > 0
  return {
    ...(name !== undefined && { name }),
    ...(status !== undefined && { status }),
    ...(statusReason !== undefined && { status_reason: statusReason }),
    ...(wanted !== undefined && { wanted }),
    ...(login !== undefined && { login }),
    ...(isChanged && { spec: JSON.stringify({ ...(JSON.parse(row.spec) as StoredGuest), ...document }) }),
  }
}

export function recordOf(row: StoredGuestRow, mappings: string, addresses: readonly AddressRow[]): GuestRecord {
  const addressesOf = (wanted: 4 | 6): string[] =>
    addresses.flatMap(({ family, address }) => (family === wanted ? [address] : []))
  const { virtualization, templateId, limits, ...document } = JSON.parse(row.spec) as StoredGuest
  return {
    ...documentDefaults,
    ...document,
    uuid: row.uuid,
    id: row.id,
    name: row.name,
    spec: { virtualization, templateId, limits },
    status: row.status,
    statusReason: row.status_reason,
    wanted: row.wanted,
    userIdSlot: row.idmap_slot,
    ipv4: row.ipv4,
    mac: row.mac,
    login: row.login,
    portMappings: parseMappings(mappings),
    publicIpv4s: addressesOf(4),
    ipv6Addresses: addressesOf(6),
    createdAtMs: row.created_at_ms,
    ownership: ownershipOf(row),
    revision: row.revision,
  }
}

function ownershipOf({ role, generation, move_id }: StoredGuestRow): GuestRecord['ownership'] {
  return role === null ? firstOwnership : { role, generation: generation ?? 0, moveId: move_id ?? '' }
}

type MappingValues = [
  protocol: 'tcp' | 'udp',
  hostIp: string,
  hostPort: number,
  hostPortEnd: number,
  containerPort: number,
  containerPortEnd: number,
  description: string,
]

/** Parses mappings. They are frozen, because all readers share them. */
function parseMappings(text: string): PortMapping[] {
  const rows = JSON.parse(text) as MappingValues[]
  return rows.map(([protocol, hostIp, hostPort, hostPortEnd, containerPort, containerPortEnd, description]) =>
    Object.freeze({ protocol, hostIp, hostPort, hostPortEnd, containerPort, containerPortEnd, description }),
  )
}
