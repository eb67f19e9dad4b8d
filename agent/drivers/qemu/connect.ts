import { readIndex } from '../../host/net/interfaces.js'
import { attachTap, type Tap } from '../../host/net/tap.js'
import type { MachineNic } from '../machine.js'

/**
 * Returns the tap for a guest's interface on the host. The bridge takes the lowest MAC address of its ports. The
 * address of the tap is high (`fe`), so that the address of the bridge never changes.
 */
export function tapOf({ device, bridge, mac }: MachineNic): Tap {
  return { device, bridge, mac: `fe${mac.slice(2)}` }
}

/**
 * Creates the tap of a running guest again after it was deleted.
 * @param procs path of `cgroup.procs` in the guest's cgroup
 * @returns true if the tap was missing
 * @throws {CommandError} if the process has ended meanwhile
 */
export async function connectMachine(pid: number, procs: string, nic: MachineNic): Promise<boolean> {
  if (readIndex(nic.device) !== undefined) return false
  await attachTap(pid, procs, tapOf(nic))
  return true
}
