import { existsSync, mkdirSync } from 'node:fs'
import { writeGroupFile, type CgroupLayout } from '../../host/process/cgroup.js'
import { readKernelFile } from '../../host/process/proc.js'
import type { Machine } from '../machine.js'
import type { GroupFacts } from '../common/group-facts.js'
import { resizeGroups } from '../common/group-limits.js'
import type { GroupLimits, LimitFacts } from '../common/plan-limits.js'
import { translationCacheMib } from './plan-command.js'

const mib = 1024 ** 2
/** Memory in MiB for QEMU itself, which was measured to need 57 MB. If QEMU ran out of memory, its guest would end. */
const overheadMib = 256
/** Maximum number of QEMU's threads: one per processor, and threads that wait for the disk. */
const mostThreads = 512

/** Plans the limits of QEMU's cgroup: those of the guest, and more memory for QEMU. QEMU itself limits disk I/O. */
export function planGroupLimits({ limits }: Machine, acceleration: 'kvm' | 'tcg'): GroupLimits {
  const extraMib = overheadMib + (acceleration === 'tcg' ? translationCacheMib : 0)
  return {
    ...limits,
    memoryBytes: limits.memoryBytes + extraMib * mib,
    ioReadBytesPerSec: 0,
    ioWriteBytesPerSec: 0,
    ioReadsPerSec: 0,
    ioWritesPerSec: 0,
    pidsMax: mostThreads,
  }
}

/** Creates a guest's cgroup in every hierarchy and sets its limits. @returns paths of the cgroups */
export function ensureGroups(facts: GroupFacts, group: string, limits: GroupLimits): string[] {
  const { cgroups } = facts
  const paths = cgroups.hierarchies.map((path) => `${path}/${group}`)
  if (cgroups.version === 2 && cgroups.unified !== undefined) delegate(cgroups.unified)
  for (const path of paths) mkdirSync(path, { recursive: true })
  fillCpuset(cgroups, group)
  writeGroupLimits(facts, group, limits)
  // The first path is the cgroup in which the agent looks for the guest's processes.
  const telling = `${tellingHierarchy(cgroups)}/${group}`
  return [telling, ...paths.filter((path) => path !== telling)]
}

/** Sets the limits of a cgroup. @returns true if any limit differed */
export function writeGroupLimits(facts: GroupFacts, group: string, limits: GroupLimits): boolean {
  return resizeGroups(facts.cgroups, group, { limits, facts: limitFacts(facts) })
}

/** Returns the mount point of the cgroup hierarchy that is used to find a guest's processes. */
export function tellingHierarchy({ controllers, hierarchies }: CgroupLayout): string {
  return controllers.get('pids') ?? hierarchies[0] ?? '/sys/fs/cgroup'
}

function limitFacts({ cgroups, swapAccounting, socketAccounting, cpusets }: GroupFacts): LimitFacts {
  return { cgroupVersion: cgroups.version, swapAccounting, socketAccounting, cpusets }
}

/** Delegates controllers to guests' cgroups. In cgroup v2, a group only has controllers that its parent delegates. */
function delegate(root: string): void {
  const has = (readKernelFile(`${root}/cgroup.controllers`) ?? '').trim().split(/\s+/)
  const given = (readKernelFile(`${root}/cgroup.subtree_control`) ?? '').trim().split(/\s+/)
  const missing = ['cpu', 'cpuset', 'io', 'memory', 'pids'].filter((c) => has.includes(c) && !given.includes(c))
  if (missing.length > 0) writeGroupFile(root, 'cgroup.subtree_control', missing.map((c) => `+${c}`).join(' '))
}

/** Gives processors and memory nodes to a new cpuset of cgroup v1. A cpuset without them accepts no process. */
function fillCpuset({ version, controllers }: CgroupLayout, group: string): void {
  const hierarchy = controllers.get('cpuset')
  if (version !== 1 || hierarchy === undefined) return
  for (const file of ['cpuset.cpus', 'cpuset.mems'])
    if (existsSync(`${hierarchy}/${group}/${file}`) && readKernelFile(`${hierarchy}/${group}/${file}`)?.trim() === '')
      writeGroupFile(`${hierarchy}/${group}`, file, (readKernelFile(`${hierarchy}/${file}`) ?? '').trim())
}
