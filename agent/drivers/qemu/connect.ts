import { readIndex } from '../../host/net/interfaces.js'
import { attachTap, type Tap } from '../../host/net/tap.js'
import type { MachineNic } from '../machine.js'

/**
 * Returns the host's tap for an interface. Its MAC address is high: a bridge takes the lowest address of its ports, and
 * the address of the guests' bridge must not change.
 */
export function tapOf({ device, bridge, mac }: MachineNic): Tap {
  return { device, bridge, mac: `fe${mac.slice(2)}` }
}

/**
 * Creates the tap of a running guest again after it was deleted.
 * @param procs path of `cgroup.procs` in the guest's cgroup
 * @returns whether the tap was missing
 * @throws {CommandError} if the process has ended meanwhile
 */
export async function connectMachine(pid: number, procs: string, nic: MachineNic): Promise<boolean> {
  if (readIndex(nic.device) !== undefined) return false
  await attachTap(pid, procs, tapOf(nic))
  return true
}
