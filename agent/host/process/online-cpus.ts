import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from './proc.js'

/**
 * Files at the root of a cgroup hierarchy (v1, v2) that list the processors which groups of the hierarchy are allowed
 * to use. If the host is itself a container, the list can be shorter than that of the online processors.
 */
const effectiveFiles = ['cpuset.effective_cpus', 'cpuset.cpus.effective']

/** Reads the numbers of the usable processors, in ascending order. @param cpusetPath mount point of the controller */
export function readOnlineCpus(cpusetPath: string | undefined): number[] {
  const files = cpusetPath === undefined ? [] : effectiveFiles.map((file) => `${cpusetPath}/${file}`)
  for (const file of [...files, '/sys/devices/system/cpu/online']) {
    const cpus = parseCpuList(readKernelFile(file) ?? '')
    if (cpus.length > 0) return cpus
  }
  return [0]
}
