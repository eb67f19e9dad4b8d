import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from './proc.js'

/**
 * Names of the file at the root of a cgroup hierarchy (v1 and v2) that lists the processors which groups may use. If
 * the host is itself a container, other processors may be online too.
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
