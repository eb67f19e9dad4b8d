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

/**
 * Who else has an address that may be the host's own already (RFC 5227, 2.1.1). A second or two where nobody has it.
 * @returns the MAC that answered first; '' for none
 * @throws {CommandError} as on an interface without ARP
 */
export async function findIpv4Owner(device: string, address: string, signal: AbortSignal): Promise<string> {
  const ask = ['-D', '-c', '2', '-w', '2', '-I', device, address]
  const { stdout } = await run('arping', ask, { timeoutMs: 5000, signal, okCodes: [0, 1] })
  return /\[([0-9A-F:]{17})\]/.exec(stdout)?.[1]?.toLowerCase() ?? ''
}
