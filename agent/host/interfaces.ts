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
