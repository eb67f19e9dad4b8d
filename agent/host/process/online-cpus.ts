import { parseCpuList } from '../../../shared/cpu-list.js'
import { readKernelFile } from './proc.js'

/** Of a hierarchy's root, v1 and v2: what groups may have. A host that is a container itself may have less than are on. */
const effectiveFiles = ['cpuset.effective_cpus', 'cpuset.cpus.effective']

/** The processors that are on, in order. @param cpusetPath where the controller is mounted; undefined: nowhere */
export function readOnlineCpus(cpusetPath: string | undefined): number[] {
  const files = cpusetPath === undefined ? [] : effectiveFiles.map((file) => `${cpusetPath}/${file}`)
  for (const file of [...files, '/sys/devices/system/cpu/online']) {
    const cpus = parseCpuList(readKernelFile(file) ?? '')
    if (cpus.length > 0) return cpus
  }
  return [0]
}
