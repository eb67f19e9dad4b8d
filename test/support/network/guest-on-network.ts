import { openFirewall, unlimitedTraffic } from '../../../agent/guests/record/record.js'
import type { GuestInsert } from '../../../agent/guests/record/guest-store.js'
import type { GuestNetwork } from '../../../agent/network/contract.js'

const limits = { vcpuMilli: 1000, ramMb: 128, diskGb: 1 }
const rates = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }

/** Makes a running guest for tests of its network. Its id is the number of its device. */
export function guestOnNetwork(guest: Omit<GuestNetwork, 'portMappings'>): GuestInsert {
  const id = Number(guest.device.replace(/^\D+/, ''))
  const { uuid, mac, ipv4, publicIpv4s, ipv6Addresses } = guest
  return {
    uuid,
    id,
    name: `guest-${id}`,
    mac,
    ipv4,
    userIdSlot: id,
    portMappings: [],
    publicIpv4s: [...publicIpv4s],
    ipv6Addresses: [...ipv6Addresses],
    spec: { virtualization: 'lxc', templateId: 'debian-12', limits: { ...limits, ...rates } },
    status: 'running',
    wanted: 'running',
    login: null,
    hasPassword: false,
    createdAtMs: 0,
    expiresAtMs: 0,
    firewall: openFirewall,
    traffic: unlimitedTraffic,
  }
}
