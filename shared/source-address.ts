/**
 * Returns the source of an address, for limits per source. For IPv6 it is the /64, which usually has one owner.
 * @param address a peer's address as Node reports it; IPv4-mapped IPv6 counts as IPv4
 */
export function sourceOf(address: string): string {
  if (!address.includes(':')) return address
  const bare = address.toLowerCase().split('%', 1)[0] ?? ''
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(bare)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = bare.split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - behind.length)
  return `${[...groups, ...Array<string>(zeros).fill('0'), ...behind].slice(0, 4).join(':')}::/64`
}
