/** An interface as `ip -json address show` gives it inside a guest. */
export interface GuestInterface {
  readonly ifindex: number
  /** Of the host-side interface. */
  readonly link_index?: number
  readonly ifname: string
  readonly addr_info: readonly { readonly family: string; readonly local?: string }[]
}

export interface Ipv6Assignment {
  /** Index of the guest's host-side interface. */
  readonly hostIndex: number
  readonly ipv6Addresses: readonly string[]
  readonly gone: readonly string[]
  readonly gateway6: string
}

/**
 * Commands of ip(8), in the guest's network namespace, that give its interface the addresses; [] when there
 * is nothing to do, or no such interface: the guest's root may have put it elsewhere.
 * The interface is named by its index (`if5`), for its name is the guest's choice.
 */
export function planAssign(
  shown: readonly GuestInterface[],
  { hostIndex, ipv6Addresses, gone, gateway6 }: Ipv6Assignment,
): string[] {
  const device = shown.find(({ link_index }) => link_index === hostIndex)
  if (!device) return []
  const has = new Set(device.addr_info.flatMap(({ local }) => local ?? []))
  const at = `dev if${device.ifindex}`
  const missing = ipv6Addresses.filter((address) => !has.has(address))
  // A guest leaves with its first: of equals the kernel takes the newest, but none that is deprecated (RFC 6724, 5).
  const lifetime = (address: string): string => (address === ipv6Addresses[0] ? '' : ' preferred_lft 0')
  return [
    ...gone.filter((address) => has.has(address)).map((address) => `address delete ${address}/128 ${at}`),
    // Nobody else can have it: the host answers for it alone.
    ...missing.map((address) => `address add ${address}/128 ${at} nodad${lifetime(address)}`),
    ...(missing.length > 0 ? [`route add default via ${gateway6} ${at}`] : []),
  ]
}
