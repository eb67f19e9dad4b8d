import { run } from './process.js'

/**
 * Tells the segment that an address is here now: a gratuitous ARP request, so that routers forget whose it was
 * (RFC 5944, 4.6). arping takes a second for each.
 * @param count of requests; Linux takes none for an entry that it made less than a second ago
 * @throws {CommandError} as on an interface without ARP
 */
export async function announceIpv4(
  device: string,
  address: string,
  signal: AbortSignal,
  count = 1,
): Promise<void> {
  await run('arping', ['-q', '-U', '-c', String(count), '-I', device, address], { timeoutMs: 5000, signal })
}
