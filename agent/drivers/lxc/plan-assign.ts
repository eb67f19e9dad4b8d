import type { MachineNic } from '../contract.js'

/** An interface as `ip -json address show` gives it inside a guest. */
export interface GuestInterface {
  readonly ifindex: number
  /** Of the host-side interface. */
  readonly link_index?: number
  readonly ifname: string
  readonly addr_info: readonly { readonly family: string; readonly local?: string }[]
}

type InnerIpv6 = Pick<MachineNic, 'ipv6Addresses' | 'gateway6'>

export interface Ipv6Assignment extends InnerIpv6 {
  /** Index of the guest's host-side interface. */
  readonly hostIndex: number
  readonly gone: readonly string[]
}

/**
 * Commands of ip(8), in the guest's network namespace, that give its interface the addresses; [] when there
 * is nothing to do, or no such interface: the guest's root may have put it elsewhere.
 * The interface is named by its index (`if5`), for its name is the guest's choice.
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
    ...planAddresses(at, assignment, missing),
  ]
}

/**
 * Commands of ip(8) that add IPv6 addresses to a guest's interface, and its way out: the same at its start and later.
 * @param at the interface: `dev eth0`
 * @param added those of its addresses that are not there yet; default: all
 */
export function planAddresses(
  at: string,
  { ipv6Addresses, gateway6 }: InnerIpv6,
  added: readonly string[] = ipv6Addresses,
): string[] {
  if (added.length === 0) return []
  // A guest leaves with its first: the kernel takes none that is deprecated before, however near (RFC 6724, 5, rule 3).
  const lifetime = (address: string): string => (address === ipv6Addresses[0] ? '' : ' preferred_lft 0')
  return [
    // Nobody else can have it: the host answers for it alone.
    ...added.map((address) => `address add ${address}/128 ${at} nodad${lifetime(address)}`),
    `route add default via ${gateway6} ${at}`,
  ]
}
