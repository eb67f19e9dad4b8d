import { writeSysctl } from './sysctl.js'

export interface SysctlChange {
  /** Path below /proc/sys. */
  readonly path: string
  readonly before: number
  readonly value: number
}

/** Records original values of kernel settings, and restores them. */
export interface SysctlKeeper {
  /** Called before each change, to record the original value. */
  readonly note: (change: SysctlChange) => Promise<void>
  /** Restores the recorded values of settings that are no longer needed. @returns paths of these settings */
  readonly putBack: (isUnused: (path: string) => boolean) => Promise<string[]>
}

let keeper: SysctlKeeper = { note: () => Promise.resolve(), putBack: () => Promise.resolve([]) }

/** Sets where this process records the original values of kernel settings. */
export function keepSysctls(by: SysctlKeeper): void {
  keeper = by
}

/** Records `before`, the old value of a kernel setting, if it is known. Then writes the new value. */
export async function changeSysctl(path: string, before: number | undefined, value: number): Promise<void> {
  if (before !== undefined) await keeper.note({ path, before, value })
  await writeSysctl(path, value)
}

/**
 * Restores the original values of kernel settings that this agent no longer needs. Skips a setting if another program
 * has changed it in the meantime, or if another agent in this network namespace possibly needs it.
 * @returns paths of the restored settings
 */
export function releaseSysctls(isUnused: (path: string) => boolean): Promise<string[]> {
  return keeper.putBack(isUnused)
}
