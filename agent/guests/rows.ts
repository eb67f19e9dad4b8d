import type { Firewall } from '../network/firewall/types.js'
import {
  openFirewall,
  unlimitedTraffic,
  type GuestRecord,
  type GuestSpec,
  type GuestStatus,
  type PortMapping,
  type TrafficLimit,
} from './record.js'

/** Rows of the journal as SQLite gives them. */
export interface GuestRow {
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
  created_at_ms: number
  revision: number
  firewall: string | null
  traffic: string | null
  expires_at_ms: number
  expired: number
  over_quota: number
}

/**
 * A guest's mappings as one JSON text, each the values of its columns: a third of what as many rows cost.
 * Parameter: the guest's uuid.
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

/** Columns of `guests` that change during a guest's life. */
export type MutableColumns = Pick<
  GuestRow,
  | 'spec'
  | 'status'
  | 'status_reason'
  | 'wanted'
  | 'firewall'
  | 'traffic'
  | 'expires_at_ms'
  | 'expired'
  | 'over_quota'
>

export function recordOf(row: GuestRow, mappings: string, addresses: readonly AddressRow[]): GuestRecord {
  const addressesOf = (wanted: 4 | 6): string[] =>
    addresses.flatMap(({ family, address }) => (family === wanted ? [address] : []))
  return {
    uuid: row.uuid,
    id: row.id,
    name: row.name,
    spec: JSON.parse(row.spec) as GuestSpec,
    status: row.status,
    statusReason: row.status_reason,
    wanted: row.wanted,
    userIdSlot: row.idmap_slot,
    ipv4: row.ipv4,
    mac: row.mac,
    login: row.login,
    hasPassword: row.has_password === 1,
    portMappings: parseMappings(mappings),
    publicIpv4s: addressesOf(4),
    ipv6Addresses: addressesOf(6),
    firewall: row.firewall === null ? openFirewall : (JSON.parse(row.firewall) as Firewall),
    traffic: row.traffic === null ? unlimitedTraffic : (JSON.parse(row.traffic) as TrafficLimit),
    expiresAtMs: row.expires_at_ms,
    policy: { expired: row.expired === 1, overQuota: row.over_quota === 1 },
    createdAtMs: row.created_at_ms,
    revision: row.revision,
  }
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

/** Frozen: they are every reader's. */
function parseMappings(text: string): PortMapping[] {
  const rows = JSON.parse(text) as MappingValues[]
  return rows.map(([protocol, hostIp, hostPort, hostPortEnd, containerPort, containerPortEnd, description]) =>
    Object.freeze({ protocol, hostIp, hostPort, hostPortEnd, containerPort, containerPortEnd, description }),
  )
}
