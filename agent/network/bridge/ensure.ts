import { BerthError, describeError } from '../../../shared/errors.js'
import { isUp, readFlags, readPorts } from '../../host/net/interfaces.js'
import type { Ip } from '../../host/net/ip.js'
import { isGone } from '../../host/process/proc.js'
import { changeSysctl } from '../../host/kernel/sysctl-change.js'
import { findSysctl } from '../../host/kernel/sysctl.js'
import { planBridge, planBridgeSysctls, type ObservedBridge, type SysctlPlan } from './plan-bridge.js'
import type { Subnet } from '../subnet.js'

/** Creates or repairs the bridge; returns what it repaired. */
export async function ensureBridge(ip: Ip, bridge: string, subnet: Subnet): Promise<string[]> {
  const have = (await ip.findInterface(bridge)) as ObservedBridge | undefined
  if (have && have.linkinfo?.info_kind !== 'bridge')
    throw new BerthError('conflict', 'invalid_state', `${bridge} exists and is not a bridge`)
  const commands = planBridge(bridge, subnet, have)
  await ip.run(commands)
  if (commands.length === 0) return []
  return [have ? `bridge ${bridge} repaired` : `bridge ${bridge} created`]
}

/**
 * Puts guests' interfaces that left the bridge back on it; returns what it repaired. The bridge is the only port
 * setting that LXC makes. An interface that cannot go back, such as one in Open vSwitch, stays cut off and does not
 * keep the others from going back.
 */
export async function ensurePorts(ip: Ip, bridge: string, devices: readonly string[]): Promise<string[]> {
  const strays = findStrays(bridge, devices)
  if (strays.length === 0) return []
  await ip.close() // the ip process may have cached other interfaces by these names
  const repairs: string[] = []
  for (const device of strays)
    try {
      await ip.run([`link set dev ${device} master ${bridge}`])
      repairs.push(`${device} returned to ${bridge}`)
    } catch (cause) {
      if (readFlags(device) === undefined) continue // its guest has ended
      repairs.push(`${device} could not be returned to ${bridge}: ${describeError(cause)}`)
    }
  return repairs
}

/** Whether the bridge is down or a guest is off it, from what the kernel tells at once: a few ms with 1,000 guests. */
export function isBroken(bridge: string, devices: readonly string[]): boolean {
  return !isUp(readFlags(bridge) ?? '0') || findStrays(bridge, devices).length > 0
}

/**
 * An interface that is down is left alone: LXC is about to put it on the bridge itself, and fails if it is there
 * already.
 */
function findStrays(bridge: string, devices: readonly string[]): string[] {
  const ports = readPorts(bridge)
  return devices.filter((device) => !ports.has(device) && isUp(readFlags(device) ?? '0'))
}

/** Writes the bridge's kernel settings that differ; returns what it repaired. */
export async function ensureSysctls(bridge: string): Promise<string[]> {
  const repairs: string[] = []
  // One after another: writing some settings resets others.
  for (const plan of planBridgeSysctls(bridge)) repairs.push(...(await ensureSysctl(plan)))
  return repairs
}

/** Settings that could not be written, as where a container's /proc/sys is read-only; each is reported once. */
const refused = new Set<string>()

function isRefused(cause: unknown): boolean {
  return ['EROFS', 'EACCES', 'EPERM'].includes((cause as NodeJS.ErrnoException).code ?? '')
}

/** Writes one setting if it differs; returns what it repaired. */
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
    return refused.has(path) ? [] : [(refused.add(path), `${name}: stays ${have}, ${value} refused`)]
  }
  return [`${name}: ${have} → ${value}`]
}

/** @throws {BerthError} `host_not_ready` if the refused setting is required by all guests */
function checkForwards(path: string, have: number | undefined): void {
  if (path !== 'net/ipv4/ip_forward') return
  const message = `net.ipv4.ip_forward is ${have} and cannot be changed: guests would have no network`
  throw new BerthError('unavailable', 'host_not_ready', message)
}
