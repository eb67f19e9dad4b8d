import { runInNetwork } from '../../host/net/network-namespace.js'
import { hasIpv6Addresses } from '../../host/net/ipv6-addresses.js'
import { readIndex } from '../../host/net/interfaces.js'
import { isSameProcess, type ProcessStat } from '../../host/process/proc.js'
import type { MachineNic } from '../machine.js'
import { planAssign, type GuestInterface } from './plan-assign.js'

/** Error output of ip(8) if the guest already has a default route. This error is harmless. */
const routeThere = /^RTNETLINK answers: File exists\nCommand failed -:\d+\n$/

/**
 * Gives a running guest its IPv6 addresses. The host's ip(8) sets them in the guest's network namespace, so that no
 * file of the guest is opened or run. Addresses on other interfaces of the guest stay unchanged.
 * @returns true if any address was missing or had to be removed
 * @throws {CommandError} if the guest's kernel settings refuse the change (`disable_ipv6`)
 */
export async function assignLxcAddresses(
  init: ProcessStat,
  { device, ipv6Addresses, gateway6 }: MachineNic,
  gone: readonly string[],
): Promise<boolean> {
  if (gone.length === 0 && hasIpv6Addresses(init.pid, ipv6Addresses)) return false
  const hostIndex = readIndex(device)
  if (hostIndex === undefined || !isSameProcess(init.pid, init.startTime)) return false
  const shown = JSON.parse(await runInNetwork(init.pid, ['-json', 'address', 'show'])) as GuestInterface[]
  const commands = planAssign(shown, { hostIndex, ipv6Addresses, gone, gateway6 })
  if (commands.length > 0)
    await runInNetwork(init.pid, ['-force', '-batch', '-'], { lines: commands, harmless: routeThere })
  return commands.length > 0
}
