import type { AgentConfig } from '../../config.js'
import type { WantedNetwork } from '../../network/contract.js'
import { ratesOf } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'

/** True if the guest is allowed to connect to port 25 of other computers. */
export function sendsMail({ security }: GuestRecord, { security: { close_smtp: closed } }: AgentConfig): boolean {
  return security.smtp === 'default' ? !closed : security.smtp === 'open'
}

/**
 * Converts a guest's record to the facts that the network needs. Leaves out public addresses if another host has the
 * guest, or may have it, because that host then answers for these addresses.
 */
export function networkOf(record: GuestRecord, config: AgentConfig): WantedNetwork {
  const { role } = record.ownership
  const isHere = role === 'owner' || role === 'leaving'
  return { ...fullNetworkOf(record, config), ...(isHere ? {} : { publicIpv4s: [], ipv6Addresses: [] }) }
}

/** Like `networkOf`, but always with the public addresses. For the removal of a network. */
export function fullNetworkOf(record: GuestRecord, config: AgentConfig): WantedNetwork {
  return {
    uuid: record.uuid,
    mac: record.mac,
    ipv4: record.ipv4,
    portMappings: record.portMappings,
    publicIpv4s: record.publicIpv4s,
    ipv6Addresses: record.ipv6Addresses,
    firewall: record.firewall,
    sendsMail: sendsMail(record, config),
    ...ratesOf(record, config),
  }
}
