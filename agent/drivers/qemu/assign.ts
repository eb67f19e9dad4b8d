import type { AssignResult } from '../contract.js'
import type { Machine } from '../machine.js'
import { assignInside } from './inside.js'
import { findLaunched, rebooted, replaceLaunched } from './launched.js'
import type { RunPaths } from './paths.js'

/**
 * Gives a running guest its IPv6 addresses through its guest agent. Also writes them to the seed, because a guest that
 * reboots by itself reads the seed.
 * @param tell writes the seed
 */
export async function assignQemuAddresses(
  run: RunPaths,
  machine: Machine,
  { gone, tell }: { readonly gone: readonly string[]; readonly tell: () => Promise<void> },
): Promise<AssignResult> {
  const launched = findLaunched(run.launched)
  if (!launched) return 'unchanged'
  const { ipv6Addresses } = machine.nic
  const added = ipv6Addresses.filter((address) => !launched.ipv6Addresses.includes(address))
  const left = [...gone, ...launched.ipv6Addresses.filter((address) => !ipv6Addresses.includes(address))]
  if (added.length === 0 && left.length === 0) return 'unchanged'
  await tell()
  const told = await assignInside(run, machine, { added, gone: [...new Set(left)] })
  const known = { nextIpv6Addresses: ipv6Addresses, ...(told ? { ipv6Addresses } : {}) }
  await replaceLaunched(run.launched, { ...launched, ...known })
  return told ? 'applied' : 'at_next_start'
}

/** Records that the guest rebooted by itself and read its seed (the CD with addresses and login). */
export async function noteReboot({ launched: file }: RunPaths): Promise<void> {
  const launched = findLaunched(file)
  const next = launched && rebooted(launched)
  if (next) await replaceLaunched(file, next)
}
