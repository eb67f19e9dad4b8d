import { CommandError, run } from './process.js'

/*
 * conntrack(8). Flows outlive the rules they were made by: what is left of an address or a port would be
 * delivered to its next owner.
 */

/** A line for each flow, also of those deleted; the kernel's table is bounded, and so is this. */
const maxOutputBytes = 256 * 1024 * 1024

/** Flows that end by themselves while they are deleted may hold a purge up that long, then some may be left. */
const maxPurgeMs = 3000

/**
 * Forgets all flows from and to a guest's address: one after the other, a guest's flow to its own mapping is
 * both.
 * @returns whether all are gone
 */
export async function purgeAddress(ipv4: string): Promise<boolean> {
  const from = await purge(['--orig-src', ipv4])
  const to = await purge(['--reply-src', ipv4])
  return from && to
}

/** Forgets flows through a mapping to the guest it led to; returns whether all are gone. */
export async function purgeMapping(
  { protocol, hostPort }: { protocol: 'tcp' | 'udp'; hostPort: number },
  ipv4: string,
): Promise<boolean> {
  return purge(['--proto', protocol, '--orig-port-dst', String(hostPort), '--reply-src', ipv4])
}

/** Forgets datagram flows to one of the host's own addresses, and port when given; returns whether all are gone. */
export async function purgeDatagrams(hostAddress: string, port?: number): Promise<boolean> {
  const atPort = port === undefined ? [] : ['--orig-port-dst', String(port)]
  return purge(['--proto', 'udp', '--orig-dst', hostAddress, ...atPort])
}

/** Every address in any flow. */
export async function readTrackedAddresses(): Promise<Set<string>> {
  const { stdout } = await run('conntrack', ['-L', '-f', 'ipv4'], { maxOutputBytes })
  return new Set([...stdout.matchAll(/\b(?:src|dst)=([\d.]+)/g)].map(([, address]) => address ?? ''))
}

/** Exit code 1 with this message means that nothing matched. */
const nothingMatched = /\b0 flow entries have been deleted/
/** And with this that a flow ended between its listing and its deletion (ENOENT): the rest was not tried. */
const flowVanished = /such conntrack doesn't exist/

/** Runs anew where a flow that vanished ended the run; each run gets further. */
async function purge(filter: readonly string[]): Promise<boolean> {
  const endMs = performance.now() + maxPurgeMs
  do {
    const options = { okCodes: [0, 1], maxOutputBytes }
    const { code, stderr } = await run('conntrack', ['-D', '-f', 'ipv4', ...filter], options)
    if (code === 0 || nothingMatched.test(stderr)) return true
    if (!flowVanished.test(stderr)) throw new CommandError('conntrack', code, stderr, '-D')
  } while (performance.now() < endMs)
  return false
}
