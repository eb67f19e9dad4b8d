import { existsSync } from 'node:fs'
import { listDirectory, readKernelFile } from '../process/proc.js'

/* Interfaces of the network namespace, read from the kernel without a process. */

const interfaceUp = 1

/** Names of all interfaces. */
export function readInterfaces(): ReadonlySet<string> {
  const names = new Set(listDirectory('/sys/class/net'))
  names.delete('bonding_masters') // a file of the bonding module
  return names
}

/** Names of a bridge's ports; empty if it has none or is missing. */
export function readPorts(bridge: string): ReadonlySet<string> {
  return new Set(listDirectory(`/sys/class/net/${bridge}/brif`))
}

export function isBridgePort(name: string): boolean {
  return existsSync(`/sys/class/net/${name}/brport`)
}

/** Flags of an interface; undefined: it is missing. */
export function readFlags(name: string): string | undefined {
  return readAttribute(name, 'flags')
}

/** Index of an interface in this network namespace; undefined: it is missing. */
export function readIndex(name: string): number | undefined {
  const text = readAttribute(name, 'ifindex')
  return text === undefined ? undefined : Number(text)
}

/**
 * True if an interface has no hardware of the host or its hypervisor: any program can create a veth, a bridge or a
 * tunnel. For a bond or a VLAN, the interfaces below it count.
 * @param directory default: the kernel's
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

/** @param flags as `readFlags` returns them */
export function isUp(flags: string): boolean {
  return (Number(flags) & interfaceUp) !== 0
}
