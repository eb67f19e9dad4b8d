import { runPerl } from '../process/process.js'

/** Time in ms that the announcement of one address takes at most, in addition to `baseMs`. */
const eachMs = 50
const baseMs = 10_000

/**
 * Announces IPv6 addresses on the segment by unsolicited neighbour advertisements, so that routers send packets for
 * these addresses to this host. Takes about 5 ms for each address.
 * @throws {CommandError} for example on an interface without Ethernet
 */
export async function announceIpv6(device: string, addresses: readonly string[], signal: AbortSignal): Promise<void> {
  const stdin = addresses.map((address) => `${address}\n`).join('')
  await runPerl('announce-ipv6', [device], { stdin, timeoutMs: baseMs + addresses.length * eachMs, signal })
}
