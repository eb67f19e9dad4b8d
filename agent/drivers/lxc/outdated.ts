import { readConfinement } from '../../host/guest/guest-namespace.js'
import { isSameProcess, type ProcessStat } from '../../host/process/proc.js'
import type { LxcRuntimeReader } from './runtime.js'

/** A guest whose system call filter or limits (plan-bounds.ts) are not those with which this agent starts guests. */
export interface OutdatedGuest {
  readonly name: string
  readonly monitor: ProcessStat
}

export function listOutdated(
  runtime: Pick<LxcRuntimeReader, 'listNames' | 'read'>,
  prefix: string,
  confinement: string,
): OutdatedGuest[] {
  return runtime.listNames(prefix).flatMap((name) => {
    const { monitor } = runtime.read(name)
    return monitor && readConfinement(monitor.pid) !== confinement ? [{ name, monitor }] : []
  })
}

/** @returns warnings for the operator about the guests in `found` that still run */
export function describeOutdated(found: readonly OutdatedGuest[]): string[] {
  const left = found.filter(({ monitor: { pid, startTime } }) => isSameProcess(pid, startTime))
  if (left.length === 0) return []
  return [
    `restart these guests, because an earlier version of the agent started them without limits on sockets and namespaces: ${left.map(({ name }) => name).join(', ')}`,
  ]
}
