import { CommandError, run } from './process.js'

/*
 * conntrack(8). Flows outlive the rules they were made by: what is left of an address or a port would be
 * delivered to its next owner.
 */

/** A line for each flow, also of those deleted; the kernel's table is bounded, and so is this. */
const maxOutputBytes = 256 * 1024 * 1024

/** Forgets all flows from and to a guest's address. */
export async function purgeAddress(ipv4: string): Promise<void> {
  await Promise.all([purge(['--orig-src', ipv4]), purge(['--reply-src', ipv4])])
}

/** Forgets flows through a mapping to the guest it led to. */
export async function purgeMapping(
  { protocol, hostPort }: { protocol: 'tcp' | 'udp'; hostPort: number },
  ipv4: string,
): Promise<void> {
  await purge(['--proto', protocol, '--orig-port-dst', String(hostPort), '--reply-src', ipv4])
}

/** Forgets datagram flows to one of the host's own addresses, and port when given. */
export async function purgeDatagrams(hostAddress: string, port?: number): Promise<void> {
  const atPort = port === undefined ? [] : ['--orig-port-dst', String(port)]
  await purge(['--proto', 'udp', '--orig-dst', hostAddress, ...atPort])
}

/** Every address in any flow. */
export async function readTrackedAddresses(): Promise<Set<string>> {
  const { stdout } = await run('conntrack', ['-L', '-f', 'ipv4'], { maxOutputBytes })
  return new Set([...stdout.matchAll(/\b(?:src|dst)=([\d.]+)/g)].map(([, address]) => address ?? ''))
}

/** Exit code 1 with this message means that nothing matched. */
const nothingMatched = /\b0 flow entries have been deleted/

async function purge(filter: readonly string[]): Promise<void> {
  const options = { okCodes: [0, 1], maxOutputBytes }
  const { code, stderr } = await run('conntrack', ['-D', '-f', 'ipv4', ...filter], options)
  if (code !== 0 && !nothingMatched.test(stderr)) throw new CommandError('conntrack', code, stderr, '-D')
}
