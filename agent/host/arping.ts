import { run } from './process.js'

/**
 * Tells the segment that an address is here now: a gratuitous ARP request, so that routers forget whose it was
 * (RFC 5944, 4.6). arping takes a second to end.
 * @throws {CommandError} as on an interface without ARP
 */
export async function announceIpv4(device: string, address: string, signal: AbortSignal): Promise<void> {
  await run('arping', ['-q', '-U', '-c', '1', '-I', device, address], { timeoutMs: 5000, signal })
}
