import type { MachineNic } from '../machine.js'

/** An interface as `ip -json address show` prints it inside a guest. */
export interface GuestInterface {
  readonly ifindex: number
  /** Index of the interface's other end, which is on the host. */
  readonly link_index?: number
  readonly ifname: string
  readonly addr_info: readonly { readonly family: string; readonly local?: string }[]
}

type InnerIpv6 = Pick<MachineNic, 'ipv6Addresses' | 'gateway6'>

export interface Ipv6Assignment extends InnerIpv6 {
  /** Index of the guest's interface on the host. */
  readonly hostIndex: number
  readonly gone: readonly string[]
}

/**
 * Plans ip(8) commands that give the guest's interface its addresses, for the guest's network namespace. The commands
 * name the interface by its index (`if5`), because the guest can rename it.
 * @returns [] if nothing has to change, or if the guest's root moved the interface away
 */
export function planAssign(shown: readonly GuestInterface[], assignment: Ipv6Assignment): string[] {
  const { hostIndex, ipv6Addresses, gone } = assignment
  const device = shown.find(({ link_index }) => link_index === hostIndex)
  if (!device) return []
  const has = new Set(device.addr_info.flatMap(({ local }) => local ?? []))
  const at = `dev if${device.ifindex}`
  const missing = ipv6Addresses.filter((address) => !has.has(address))
  return [
    ...gone.filter((address) => has.has(address)).map((address) => `address delete ${address}/128 ${at}`),
    ...planGuestAddresses(at, assignment, missing),
  ]
}

/**
 * Plans ip(8) commands that add a guest's IPv6 addresses and default route, at its start or while it runs.
 * @param at the interface, for example `dev eth0`
 * @param added the addresses to add; default: all
 */
export function planGuestAddresses(
  at: string,
  { ipv6Addresses, gateway6 }: InnerIpv6,
  added: readonly string[] = ipv6Addresses,
): string[] {
  if (added.length === 0) return []
  // Deprecates all addresses but the first, so that the kernel uses the first as source (RFC 6724, 5, rule 3).
  const lifetime = (address: string): string => (address === ipv6Addresses[0] ? '' : ' preferred_lft 0')
  return [
    // nodad turns off duplicate address detection, because only the host answers for the address.
    ...added.map((address) => `address add ${address}/128 ${at} nodad${lifetime(address)}`),
    `route add default via ${gateway6} ${at}`,
  ]
}
