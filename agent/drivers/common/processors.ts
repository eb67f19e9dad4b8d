import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from '../../host/process/proc.js'

/** A guest's cgroup in the controller `cpuset`. */
export interface CpusetGroup {
  /** Uuid of the guest; undefined if it has no configuration. */
  readonly uuid: string | undefined
  readonly path: string
}

/** Returns the processors that each guest is allowed to use now, by the guest's uuid. Omits guests without a cgroup. */
export function readProcessors(groups: readonly CpusetGroup[]): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, readonly number[]>()
  for (const { uuid, path } of groups) {
    const text = readKernelFile(`${path}/cpuset.cpus`)
    if (uuid !== undefined && text !== undefined) found.set(uuid, parseCpuList(text))
  }
  return found
}
