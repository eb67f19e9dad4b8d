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

/** Columns of `port_mappings` that make a `PortMapping`. */
export const mappingColumns = `protocol, host_ip AS hostIp, host_port AS hostPort, host_port_end AS hostPortEnd,
  container_port AS containerPort, container_port_end AS containerPortEnd, description`

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

export function recordOf(
  row: GuestRow,
  portMappings: PortMapping[],
  addresses: readonly AddressRow[],
): GuestRecord {
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
    idmapSlot: row.idmap_slot,
    ipv4: row.ipv4,
    mac: row.mac,
    login: row.login,
    hasPassword: row.has_password === 1,
    portMappings,
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
