import { run } from '../process/process.js'

/**
 * Announces an address on the segment by gratuitous ARP requests, so that routers update their ARP caches (RFC 5944,
 * 4.6). Each request takes a second.
 * @param count number of requests; Linux ignores a request if its ARP entry for the address is less than a second old
 * @throws {CommandError} for example on an interface without ARP
 */
export async function announceIpv4(device: string, address: string, signal: AbortSignal, count = 1): Promise<void> {
  await run('arping', ['-q', '-U', '-c', String(count), '-I', device, address], { timeoutMs: 5000, signal })
}

/**
 * Finds another computer with this address, even if the host has the address, too (RFC 5227, 2.1.1). Without an answer,
 * this takes about two seconds.
 * @returns the MAC that answered first; '' if there was no answer
 * @throws {CommandError} for example on an interface without ARP
 */
export async function findIpv4Owner(device: string, address: string, signal: AbortSignal): Promise<string> {
  const ask = ['-D', '-c', '2', '-w', '2', '-I', device, address]
  const { stdout } = await run('arping', ask, { timeoutMs: 5000, signal, okCodes: [0, 1] })
  return /\[([0-9A-F:]{17})\]/.exec(stdout)?.[1]?.toLowerCase() ?? ''
}
