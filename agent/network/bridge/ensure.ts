import { BerthError, describeError } from '../../../shared/errors.js'
import { isUp, readFlags, readPorts } from '../../host/net/interfaces.js'
import type { Ip } from '../../host/net/ip.js'
import { isGone } from '../../host/process/proc.js'
import { changeSysctl } from '../../host/kernel/sysctl-change.js'
import { findSysctl } from '../../host/kernel/sysctl.js'
import { planBridge, planBridgeSysctls, type ObservedBridge, type SysctlPlan } from './plan-bridge.js'
import type { Subnet } from '../subnet.js'

/** Creates or repairs the bridge. @returns the repairs */
export async function ensureBridge(ip: Ip, bridge: string, subnet: Subnet): Promise<string[]> {
  const have = (await ip.findInterface(bridge)) as ObservedBridge | undefined
  if (have && have.linkinfo?.info_kind !== 'bridge')
    throw new BerthError('conflict', 'invalid_state', `the interface ${bridge} exists, but is not a bridge`)
  const commands = planBridge(bridge, subnet, have)
  await ip.run(commands)
  if (commands.length === 0) return []
  return [have ? `bridge ${bridge} repaired` : `bridge ${bridge} created`]
}

/**
 * Puts guests' interfaces back on the bridge if they have left it. An interface that cannot be moved back (for example
 * from Open vSwitch) stays disconnected. The other interfaces are still moved.
 * @returns the repairs, and the interfaces that could not be moved
 */
export async function ensurePorts(ip: Ip, bridge: string, devices: readonly string[]): Promise<string[]> {
  const strays = findStrays(bridge, devices)
  if (strays.length === 0) return []
  await ip.close() // a new ip process is needed: the old one may have cached former interfaces with these names
  const repairs: string[] = []
  for (const device of strays)
    try {
      await ip.run([`link set dev ${device} master ${bridge}`])
      repairs.push(`${device} returned to ${bridge}`)
    } catch (cause) {
      if (readFlags(device) === undefined) continue // the guest has ended, and its interface no longer exists
      repairs.push(`${device} could not be returned to ${bridge}: ${describeError(cause)}`)
    }
  return repairs
}

/** True if the bridge is down or lacks a guest's interface. Only reads /sys, which takes a few ms with 1,000 guests. */
export function isBroken(bridge: string, devices: readonly string[]): boolean {
  return !isUp(readFlags(bridge) ?? '0') || findStrays(bridge, devices).length > 0
}

/** Finds interfaces that are up but not on the bridge. Skips interfaces that are down: LXC adds them later. */
function findStrays(bridge: string, devices: readonly string[]): string[] {
  const ports = readPorts(bridge)
  return devices.filter((device) => !ports.has(device) && isUp(readFlags(device) ?? '0'))
}

/** Writes the kernel settings of the bridge whose values differ from the planned values. @returns the repairs */
export async function ensureSysctls(bridge: string): Promise<string[]> {
  const repairs: string[] = []
  // The settings are written one after another, because writing some of them resets others.
  for (const plan of planBridgeSysctls(bridge)) repairs.push(...(await ensureSysctl(plan)))
  return repairs
}

/** Settings that the kernel refused to change, for example because /proc/sys is read-only. Each is reported once. */
const refused = new Set<string>()

function isRefused(cause: unknown): boolean {
  return ['EROFS', 'EACCES', 'EPERM'].includes((cause as NodeJS.ErrnoException).code ?? '')
}

/** Writes one setting if its value differs from the planned value. @returns the repairs */
export async function ensureSysctl({ path, value, atLeast, optional }: SysctlPlan): Promise<string[]> {
  const have = findSysctl(path)
  if (have === value || (atLeast && have !== undefined && have > value)) return []
  if (have === undefined && optional) return []
  const name = path.replaceAll('/', '.')
  try {
    await changeSysctl(path, have, value)
  } catch (cause) {
    if (optional && isGone(cause)) return []
    if (!isRefused(cause)) throw cause
    checkForwards(path, have)
    return refused.has(path)
      ? []
      : [(refused.add(path), `${name}: the kernel did not allow the change from ${have} to ${value}`)]
  }
  return [`${name}: ${have} → ${value}`]
}

/** @throws {BerthError} `host_not_ready` if the kernel refused a setting that all guests need */
function checkForwards(path: string, have: number | undefined): void {
  if (path !== 'net/ipv4/ip_forward') return
  const message = `net.ipv4.ip_forward is ${have} and cannot be changed: guests would have no network`
  throw new BerthError('unavailable', 'host_not_ready', message)
}
