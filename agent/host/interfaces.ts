import { existsSync } from 'node:fs'
import { listDirectory, readKernelFile } from './proc.js'

/* Interfaces of the network namespace, as the kernel shows them, without a process. */

const interfaceUp = 1

/** Names of all. */
export function readInterfaces(): ReadonlySet<string> {
  const names = new Set(listDirectory('/sys/class/net'))
  names.delete('bonding_masters') // a file of the bonding module
  return names
}

/** Names of a bridge's ports; empty: it has none, or is not there. */
export function readPorts(bridge: string): ReadonlySet<string> {
  return new Set(listDirectory(`/sys/class/net/${bridge}/brif`))
}

/** Of one interface; undefined: it is not there. */
export function readFlags(name: string): string | undefined {
  return readAttribute(name, 'flags')
}

/** Its number in this network namespace; undefined: it is not there. */
export function readIndex(name: string): number | undefined {
  const text = readAttribute(name, 'ifindex')
  return text === undefined ? undefined : Number(text)
}

/**
 * Whether an interface is of no hardware, the host's or its hypervisor's: a veth, a bridge, a tunnel, which any program
 * makes. A bond and a VLAN are what is below them.
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
    if ((error as NodeJS.ErrnoException).code === 'EINVAL') return undefined // it is being deleted
    throw error
  }
}

/** @param flags as `readFlags` returns them */
export function isUp(flags: string): boolean {
  return (Number(flags) & interfaceUp) !== 0
}
