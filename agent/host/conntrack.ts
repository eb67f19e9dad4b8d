import { CommandError, run } from './process.js'

/*
 * conntrack(8). Flows outlive the rules they were made by: what is left of an address or a port would be
 * delivered to its next owner.
 */

/** A line for each flow, also of those deleted; the kernel's table is bounded, and so is this. */
const maxOutputBytes = 256 * 1024 * 1024

/** Flows that end by themselves while they are deleted may hold a purge up that long, then some may be left. */
const maxPurgeMs = 3000

export interface MappedPorts {
  readonly protocol: 'tcp' | 'udp'
  /** Address that was asked; empty: any. */
  readonly hostIp: string
  readonly hostPort: number
  readonly hostPortEnd: number
}

/**
 * Forgets all flows from and to a guest's address: one after the other, a guest's flow to its own mapping is
 * both.
 * @returns whether all are gone
 */
export async function purgeAddress(address: string): Promise<boolean> {
  const from = await purge(address, ['--orig-src', address])
  const to = await purge(address, ['--reply-src', address])
  return from && to
}

/** Forgets all flows to a public address and from it; returns whether all are gone. */
export async function purgePublicAddress(address: string): Promise<boolean> {
  const to = await purge(address, ['--orig-dst', address])
  const from = await purge(address, ['--reply-dst', address])
  return to && from
}

/** Forgets flows through a mapping to the guest's address that it led to; returns whether all are gone. */
export function purgeMapping(mapping: MappedPorts, target: string): Promise<boolean> {
  const { protocol, hostIp } = mapping
  const asked = hostIp === '' ? [] : ['--orig-dst', hostIp]
  return purgePorts(target, ['--proto', protocol, ...asked, '--reply-src', target], mapping)
}

/** Forgets datagram flows to one of the host's own addresses, and ports when given; returns whether all are gone. */
export function purgeDatagrams(
  hostAddress: string,
  ports?: Pick<MappedPorts, 'hostPort' | 'hostPortEnd'>,
): Promise<boolean> {
  const filter = ['--proto', 'udp', '--orig-dst', hostAddress]
  return ports ? purgePorts(hostAddress, filter, ports) : purge(hostAddress, filter)
}

/** Every IPv4 address in any flow. */
export async function readTrackedAddresses(): Promise<Set<string>> {
  const { stdout } = await run('conntrack', ['-L', '-f', 'ipv4'], { maxOutputBytes })
  return new Set([...stdout.matchAll(/\b(?:src|dst)=([\d.]+)/g)].map(([, address]) => address ?? ''))
}

/** conntrack knows single ports only: of a range, those that are in use are forgotten one by one. */
async function purgePorts(
  address: string,
  filter: readonly string[],
  { hostPort, hostPortEnd }: Pick<MappedPorts, 'hostPort' | 'hostPortEnd'>,
): Promise<boolean> {
  const single = (port: number): Promise<boolean> =>
    purge(address, [...filter, '--orig-port-dst', String(port)])
  if (hostPort === hostPortEnd) return single(hostPort)
  const { stdout } = await run('conntrack', ['-L', ...familyOf(address), ...filter], { maxOutputBytes })
  // The first dport of a line is that of the flow as it was opened.
  const used = stdout.split('\n').map((line) => Number(/\bdport=(\d+)/.exec(line)?.[1]))
  const ports = [...new Set(used)].filter((port) => port >= hostPort && port <= hostPortEnd)
  let gone = true
  for (const port of ports) gone = (await single(port)) && gone
  return gone
}

function familyOf(address: string): string[] {
  return ['-f', address.includes(':') ? 'ipv6' : 'ipv4']
}

/** Exit code 1 with this message means that nothing matched. */
const nothingMatched = /\b0 flow entries have been deleted/
/** And with this that a flow ended between its listing and its deletion (ENOENT): the rest was not tried. */
const flowVanished = /such conntrack doesn't exist/

/** Runs anew where a flow that vanished ended the run; each run gets further. */
async function purge(address: string, filter: readonly string[]): Promise<boolean> {
  const endMs = performance.now() + maxPurgeMs
  do {
    const options = { okCodes: [0, 1], maxOutputBytes }
    const { code, stderr } = await run('conntrack', ['-D', ...familyOf(address), ...filter], options)
    if (code === 0 || nothingMatched.test(stderr)) return true
    if (!flowVanished.test(stderr)) throw new CommandError('conntrack', code, stderr, '-D')
  } while (performance.now() < endMs)
  return false
}
