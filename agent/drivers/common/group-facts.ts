import { existsSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { listSubgroups, readCgroupLayout, type CgroupLayout } from '../../host/process/cgroup.js'
import { readKernelFile } from '../../host/process/proc.js'

/** Limits that this host's control groups can enforce. */
export interface GroupFacts {
  readonly cgroups: CgroupLayout
  readonly swapAccounting: boolean
  readonly socketAccounting: boolean
  readonly cpusets: boolean
}

export function readGroupFacts(): GroupFacts {
  const cgroups = readCgroupLayout()
  return {
    cgroups,
    swapAccounting: hasSwapAccounting(cgroups),
    socketAccounting: existsSync(`${cgroups.controllers.get('memory') ?? ''}/memory.kmem.tcp.limit_in_bytes`),
    cpusets: hasCpusets(cgroups),
  }
}

/**
 * Finds the disk that holds the file system of `path`. For a partition, this is the whole disk, because partitions
 * cannot be throttled.
 * @returns `major:minor`, or undefined if the file system is not on exactly one block device
 */
export function findDiskNumbers(path: string): string | undefined {
  const source = findMountSource(path)
  if (!source?.startsWith('/dev/') || !existsSync(source)) return undefined
  const { rdev } = statSync(source)
  const numbers = `${(rdev >> 8) & 0xfff}:${(rdev & 0xff) | ((rdev >> 12) & 0xfff00)}`
  const sys = realpathSync(`/sys/dev/block/${numbers}`)
  if (!existsSync(`${sys}/partition`)) return numbers
  return readKernelFile(`${dirname(sys)}/dev`)?.trim()
}

function findMountSource(path: string): string | undefined {
  let best: { point: string; source: string } | undefined
  for (const line of (readKernelFile('/proc/self/mountinfo') ?? '').split('\n')) {
    const [before, after] = line.split(' - ')
    const point = (before ?? '').split(' ')[4]
    const source = (after ?? '').split(' ')[1]
    if (!point || !source || !isBelow(path, point)) continue
    if (!best || point.length >= best.point.length) best = { point, source }
  }
  return best?.source
}

function isBelow(path: string, point: string): boolean {
  return point === '/' || path === point || path.startsWith(`${point}/`)
}

function hasSwapAccounting({ version, controllers }: CgroupLayout): boolean {
  const memory = controllers.get('memory')
  if (memory === undefined) return false
  if (version === 1) return existsSync(`${memory}/memory.memsw.limit_in_bytes`)
  // The root cgroup has no files for limits. Therefore a child cgroup that has memory.max is checked instead.
  const [some] = listSubgroups(memory).filter((name) => existsSync(`${memory}/${name}/memory.max`))
  return some === undefined || existsSync(`${memory}/${some}/memory.swap.max`)
}

/** True if guests can be pinned to processors. With cgroup v2, the root cgroup must have the controller `cpuset`. */
function hasCpusets({ version, controllers, unified = '' }: CgroupLayout): boolean {
  if (version === 1) return controllers.has('cpuset')
  return (readKernelFile(`${unified}/cgroup.controllers`) ?? '').split(/\s/).includes('cpuset')
}
