import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from './proc.js'

/**
 * Files at a hierarchy's root, v1 and v2, with the processors that groups may use. A host that is a container itself
 * may have fewer than are online.
 */
const effectiveFiles = ['cpuset.effective_cpus', 'cpuset.cpus.effective']

/**
 * The online processors, in ascending order. @param cpusetPath mount point of the controller; undefined: not mounted
 */
export function readOnlineCpus(cpusetPath: string | undefined): number[] {
  const files = cpusetPath === undefined ? [] : effectiveFiles.map((file) => `${cpusetPath}/${file}`)
  for (const file of [...files, '/sys/devices/system/cpu/online']) {
    const cpus = parseCpuList(readKernelFile(file) ?? '')
    if (cpus.length > 0) return cpus
  }
  return [0]
}
