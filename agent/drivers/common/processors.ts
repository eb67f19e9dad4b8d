import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from '../../host/process/proc.js'

/** A guest's control group of the controller `cpuset`, an absolute path. */
export interface CpusetGroup {
  /** undefined for a guest without a configuration. */
  readonly uuid: string | undefined
  readonly path: string
}

/** The processors that guests may use now, by uuid; without those that have no group. */
export function readProcessors(groups: readonly CpusetGroup[]): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, readonly number[]>()
  for (const { uuid, path } of groups) {
    const text = readKernelFile(`${path}/cpuset.cpus`)
    if (uuid !== undefined && text !== undefined) found.set(uuid, parseCpuList(text))
  }
  return found
}
