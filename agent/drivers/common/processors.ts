import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from '../../host/process/proc.js'

/** Control group of a guest in the controller `cpuset`. */
export interface CpusetGroup {
  /** undefined if the guest has no configuration. */
  readonly uuid: string | undefined
  readonly path: string
}

/** The processors that each guest may use now, by uuid. Guests without a group are left out. */
export function readProcessors(groups: readonly CpusetGroup[]): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, readonly number[]>()
  for (const { uuid, path } of groups) {
    const text = readKernelFile(`${path}/cpuset.cpus`)
    if (uuid !== undefined && text !== undefined) found.set(uuid, parseCpuList(text))
  }
  return found
}
