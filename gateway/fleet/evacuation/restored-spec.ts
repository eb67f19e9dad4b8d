import { GuestSpec, type Guest } from '../../../proto/gen/berth/agent/v1/guest.js'

/** Returns settings for a new guest, copied from the last report of the failed host. */
export function specOf(guest: Guest): GuestSpec {
  const { virtualization, templateId, limits, portMappings, traffic, placement, labels } = guest
  return GuestSpec.create({
    virtualization,
    templateId,
    limits,
    assignNat: portMappings.length > 0,
    portMappings,
    sshAuthMode: 'auto_password', // ignored: the disk contains the login
    start: ['running', 'starting', 'restarting'].includes(guest.status),
    ipv4Count: guest.publicIpv4s.length,
    ipv6Count: guest.ipv6Addresses.length,
    expiresAtMs: guest.expiresAtMs,
    traffic,
    snapshotLimit: guest.snapshotLimit,
    devices: guest.devices,
    placement,
    tags: labels?.tags ?? [],
  })
}
