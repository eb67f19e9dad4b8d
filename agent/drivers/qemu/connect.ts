import { readIndex } from '../../host/net/interfaces.js'
import { attachTap, type Tap } from '../../host/net/tap.js'
import type { MachineNic } from '../machine.js'

/**
 * The host's tap of an interface. Its MAC address is high: a bridge takes the lowest address of its ports, and so keeps
 * its own.
 */
export function tapOf({ device, bridge, mac }: MachineNic): Tap {
  return { device, bridge, mac: `fe${mac.slice(2)}` }
}

/**
 * Recreates a running guest's tap after somebody deleted it.
 * @param procs path of the file that lists the guest's process
 * @returns whether the tap was missing
 * @throws {CommandError} if the process has ended meanwhile
 */
export async function connectMachine(pid: number, procs: string, nic: MachineNic): Promise<boolean> {
  if (readIndex(nic.device) !== undefined) return false
  await attachTap(pid, procs, tapOf(nic))
  return true
}
