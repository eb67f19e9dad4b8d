import { existsSync } from 'node:fs'
import { listDirectory, readKernelFile } from '../process/proc.js'

/* This module reads interfaces of the agent's network namespace from sysfs, without a process. */

const interfaceUp = 1

export function readInterfaces(): ReadonlySet<string> {
  const names = new Set(listDirectory('/sys/class/net'))
  names.delete('bonding_masters') // a file of the bonding module, not an interface
  return names
}

/** Reads the names of a bridge's ports. Empty if the bridge does not exist. */
export function readPorts(bridge: string): ReadonlySet<string> {
  return new Set(listDirectory(`/sys/class/net/${bridge}/brif`))
}

export function isBridgePort(name: string): boolean {
  return existsSync(`/sys/class/net/${name}/brport`)
}

/** Reads the flags of an interface; undefined if it does not exist. */
export function readFlags(name: string): string | undefined {
  return readAttribute(name, 'flags')
}

/** Reads the index of an interface in this network namespace; undefined if it does not exist. */
export function readIndex(name: string): number | undefined {
  const text = readAttribute(name, 'ifindex')
  return text === undefined ? undefined : Number(text)
}

/**
 * True if an interface has no hardware or hypervisor device, for example a veth, a bridge or a tunnel. Any program can
 * create such an interface. A bond or a VLAN is virtual if one of its lower interfaces is virtual.
 * @param directory directory of interfaces in sysfs
 */
export function isVirtual(name: string, directory = '/sys/class/net'): boolean {
  const at = `${directory}/${name}`
  if (existsSync(`${at}/device`)) return false
  if (!/^DEVTYPE=(bond|vlan)$/m.test(readKernelFile(`${at}/uevent`) ?? '')) return true
  const below = listDirectory(at).flatMap((entry) => /^lower_(.+)/.exec(entry)?.[1] ?? [])
  return below.length === 0 || below.some((device) => isVirtual(device, directory))
}

function readAttribute(name: string, attribute: string): string | undefined {
  try {
    return readKernelFile(`/sys/class/net/${name}/${attribute}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EINVAL') return undefined // the interface is being deleted
    throw error
  }
}

/** True if an interface is up. @param flags result of `readFlags` */
export function isUp(flags: string): boolean {
  return (Number(flags) & interfaceUp) !== 0
}
