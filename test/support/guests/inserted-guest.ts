import type { GuestInsert } from '../../../agent/guests/record/guest-store.js'
import { openFirewall, unlimitedTraffic } from '../../../agent/guests/record/record.js'

/** Limits of a small guest whose network and disk rates are unlimited. */
export const smallLimits = {
  vcpuMilli: 1000,
  ramMb: 256,
  diskGb: 1,
  networkDownMbps: 0,
  networkUpMbps: 0,
  ioReadMbps: 0,
  ioWriteMbps: 0,
}

/** A stopped container without port mappings and public addresses, for tests that use a `GuestStore` in memory. */
export const stoppedGuest: GuestInsert = {
  uuid: 'u1',
  id: 1,
  name: 'one',
  status: 'stopped',
  wanted: 'stopped',
  userIdSlot: 0,
  spec: { virtualization: 'lxc', templateId: 'debian-12', limits: smallLimits },
  ipv4: '10.64.0.2',
  mac: '02:be:0a:40:00:02',
  login: null,
  hasPassword: false,
  createdAtMs: 5,
  portMappings: [],
  publicIpv4s: [],
  ipv6Addresses: [],
  firewall: openFirewall,
  traffic: unlimitedTraffic,
  expiresAtMs: 0,
}
