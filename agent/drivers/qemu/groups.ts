import { existsSync, mkdirSync } from 'node:fs'
import { writeGroupFile, type CgroupLayout } from '../../host/process/cgroup.js'
import { readKernelFile } from '../../host/process/proc.js'
import type { Machine } from '../contract.js'
import type { GroupFacts } from '../common/group-facts.js'
import { resizeGroups } from '../common/group-limits.js'
import type { GroupLimits, LimitFacts } from '../common/plan-limits.js'
import { translationCacheMib } from './plan-command.js'

const mib = 1024 ** 2
/** Of QEMU beyond its guest's memory: 57 MB were measured, and running out of it would end the guest. */
const overheadMib = 256
/** Threads: one for each processor, and those that wait for the disk. */
const mostThreads = 512

/** What QEMU's process may use so that its guest has what was sold. QEMU itself bounds what goes to the disk. */
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

/** The same group in every hierarchy, with its limits. */
export function ensureGroups(facts: GroupFacts, group: string, limits: GroupLimits): string[] {
  const { cgroups } = facts
  const paths = cgroups.hierarchies.map((path) => `${path}/${group}`)
  if (cgroups.version === 2 && cgroups.unified !== undefined) delegate(cgroups.unified)
  for (const path of paths) mkdirSync(path, { recursive: true })
  fillCpuset(cgroups, group)
  writeGroupLimits(facts, group, limits)
  // The one that tells of the guest's process comes first: it is looked at for whether one runs.
  const telling = `${tellingHierarchy(cgroups)}/${group}`
  return [telling, ...paths.filter((path) => path !== telling)]
}

/** @returns whether any differed */
export function writeGroupLimits(facts: GroupFacts, group: string, limits: GroupLimits): boolean {
  return resizeGroups(facts.cgroups, group, { limits, facts: limitFacts(facts) })
}

/** The hierarchy whose groups tell which processes are a guest's. */
export function tellingHierarchy({ controllers, hierarchies }: CgroupLayout): string {
  return controllers.get('pids') ?? hierarchies[0] ?? '/sys/fs/cgroup'
}

function limitFacts({ cgroups, swapAccounting, socketAccounting, cpusets }: GroupFacts): LimitFacts {
  return { cgroupVersion: cgroups.version, swapAccounting, socketAccounting, cpusets }
}

/** v2: groups have controllers that the group above hands down. */
function delegate(root: string): void {
  const has = (readKernelFile(`${root}/cgroup.controllers`) ?? '').trim().split(/\s+/)
  const given = (readKernelFile(`${root}/cgroup.subtree_control`) ?? '').trim().split(/\s+/)
  const missing = ['cpu', 'cpuset', 'io', 'memory', 'pids'].filter((c) => has.includes(c) && !given.includes(c))
  if (missing.length > 0) writeGroupFile(root, 'cgroup.subtree_control', missing.map((c) => `+${c}`).join(' '))
}

/** v1: a new group has neither processors nor memory nodes, and takes no process. */
function fillCpuset({ version, controllers }: CgroupLayout, group: string): void {
  const hierarchy = controllers.get('cpuset')
  if (version !== 1 || hierarchy === undefined) return
  for (const file of ['cpuset.cpus', 'cpuset.mems'])
    if (existsSync(`${hierarchy}/${group}/${file}`) && readKernelFile(`${hierarchy}/${group}/${file}`)?.trim() === '')
      writeGroupFile(`${hierarchy}/${group}`, file, (readKernelFile(`${hierarchy}/${file}`) ?? '').trim())
}
