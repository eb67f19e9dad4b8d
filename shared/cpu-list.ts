/* This module reads and formats lists of CPUs as the kernel writes them, such as `0-3,8` (cpuset(7), FORMATS). */

/** Returns the CPU numbers in ascending order. Malformed parts of the text are ignored. */
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

/** Formats a list as the kernel does. @param cpus in ascending order */
export function formatCpuList(cpus: readonly number[]): string {
  const ranges: [number, number][] = []
  for (const cpu of cpus) {
    const last = ranges.at(-1)
    if (last?.[1] === cpu - 1) last[1] = cpu
    else ranges.push([cpu, cpu])
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',')
}
