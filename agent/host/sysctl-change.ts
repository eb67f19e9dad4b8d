import { writeSysctl } from './sysctl.js'

/** A setting of the kernel that is about to be another. */
export interface SysctlChange {
  /** Below /proc/sys. */
  readonly path: string
  readonly before: number
  readonly value: number
}

let note: (change: SysctlChange) => Promise<void> = () => Promise.resolve()

/** From now on the listener is told every change before it is made: one kernel, one listener in a process. */
export function noteSysctlChanges(listener: (change: SysctlChange) => Promise<void>): void {
  note = listener
}

/** Writes what was found to be something else, once that is noted. */
export async function changeSysctl(path: string, before: number | undefined, value: number): Promise<void> {
  if (before !== undefined) await note({ path, before, value })
  await writeSysctl(path, value)
}
