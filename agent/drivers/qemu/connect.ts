import { readIndex } from '../../host/net/interfaces.js'
import { attachTap, type Tap } from '../../host/net/tap.js'
import type { MachineNic } from '../contract.js'

/** High, so that a bridge that takes the lowest address of its ports keeps its own. */
export function tapOf({ device, bridge, mac }: MachineNic): Tap {
  return { device, bridge, mac: `fe${mac.slice(2)}` }
}

/**
 * Makes a running guest's tap anew after somebody deleted it.
 * @param procs lists the guest's process
 * @returns whether it was missing
 * @throws {CommandError} when the process has ended meanwhile
 */
export async function connectMachine(pid: number, procs: string, nic: MachineNic): Promise<boolean> {
  if (readIndex(nic.device) !== undefined) return false
  await attachTap(pid, procs, tapOf(nic))
  return true
}
