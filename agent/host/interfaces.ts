import { listDirectory, readKernelFile } from './proc.js'

/* Interfaces of the network namespace, as the kernel shows them, without a process. */

const interfaceUp = 1

/** Names of all. */
export function readInterfaces(): ReadonlySet<string> {
  return new Set(listDirectory('/sys/class/net'))
}

/** Names of a bridge's ports; empty: it has none, or is not there. */
export function readPorts(bridge: string): ReadonlySet<string> {
  return new Set(listDirectory(`/sys/class/net/${bridge}/brif`))
}

/** Of one interface; undefined: it is not there. */
export function readFlags(name: string): string | undefined {
  return readKernelFile(`/sys/class/net/${name}/flags`)
}

/** @param flags as `readFlags` returns them */
export function isUp(flags: string): boolean {
  return (Number(flags) & interfaceUp) !== 0
}
