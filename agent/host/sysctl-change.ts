import { writeSysctl } from './sysctl.js'

/** A setting of the kernel that is about to be another. */
export interface SysctlChange {
  /** Below /proc/sys. */
  readonly path: string
  readonly before: number
  readonly value: number
}

/** Keeps what the host's settings were before. */
export interface SysctlKeeper {
  /** Is told every change before it is made. */
  readonly note: (change: SysctlChange) => Promise<void>
  /** Puts noted settings back that are needed no more; returns their paths. */
  readonly putBack: (isUnused: (path: string) => boolean) => Promise<string[]>
}

let keeper: SysctlKeeper = { note: () => Promise.resolve(), putBack: () => Promise.resolve([]) }

/** From now on this one keeps all: one kernel, one keeper in a process. */
export function keepSysctls(by: SysctlKeeper): void {
  keeper = by
}

/** Writes what was found to be something else, once that is noted. */
export async function changeSysctl(path: string, before: number | undefined, value: number): Promise<void> {
  if (before !== undefined) await keeper.note({ path, before, value })
  await writeSysctl(path, value)
}

/**
 * Settings that were changed for something that is there no more become what they were, unless somebody else changed
 * them since or another agent of this network may need them.
 * @returns paths of those that did
 */
export function releaseSysctls(isUnused: (path: string) => boolean): Promise<string[]> {
  return keeper.putBack(isUnused)
}
