import { readKernelFile } from './proc.js'

/*
 * Lists of processors as the kernel writes them: `0-3,8` (cpuset(7), FORMATS).
 */

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

/** In order; what is no list is none. */
export function parseCpuList(text: string): number[] {
  const cpus = text
    .trim()
    .split(',')
    .flatMap((range) => {
      const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(range) ?? []
      if (first === undefined) return []
      const length = Math.max(0, Number(last) - Number(first) + 1)
      return Array.from({ length }, (_, index) => Number(first) + index)
    })
  return [...new Set(cpus)].sort((a, b) => a - b)
}

/** As the kernel writes it back. @param cpus in order */
export function formatCpuList(cpus: readonly number[]): string {
  const ranges: [number, number][] = []
  for (const cpu of cpus) {
    const last = ranges.at(-1)
    if (last?.[1] === cpu - 1) last[1] = cpu
    else ranges.push([cpu, cpu])
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',')
}
