/*
 * Lists of processors as the kernel writes them: `0-3,8` (cpuset(7), FORMATS).
 */

/** The processors in order; malformed parts are ignored. */
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
