import { existsSync } from 'node:fs'
import { readGroupNumber, writeGroupFile, type CgroupLayout } from '../../host/process/cgroup.js'
import { readKernelFile } from '../../host/process/proc.js'
import { conflict } from '../../../shared/errors.js'
import { isWritten, limitsIo, planLimits, type GroupLimits, type GroupValue, type LimitFacts } from './plan-limits.js'

/** A guest's cgroups and the values that they should have. */
interface DesiredGroups {
  readonly groupOf: (controller: string) => string | undefined
  readonly values: readonly GroupValue[]
  readonly limits: GroupLimits
}

/**
 * Writes a running guest's limits to its cgroups where they differ. The memory limit is written last, because the
 * kernel can refuse only this limit. All other limits are then already in force.
 * @param group name of the cgroup, the same in every hierarchy
 * @returns true if any limit differed
 * @throws {BerthError} `memory_in_use` if the guest uses more than the new limit, even after reclaim
 */
export function resizeGroups(
  cgroups: CgroupLayout,
  group: string,
  { limits, facts }: { limits: GroupLimits; facts: LimitFacts },
): boolean {
  const groupOf = (controller: string): string | undefined => {
    const path = cgroups.controllers.get(controller)
    return path === undefined ? undefined : `${path}/${group}`
  }
  const values = planLimits(limits, facts).filter(
    (value) => !isWritten(value, readKernelFile(`${groupOf(value.controller)}/${value.file}`)),
  )
  writeOthers({ groupOf, values, limits })
  writeMemory({ groupOf, values, limits }, cgroups.version)
  return values.length > 0
}

function writeOthers({ groupOf, values, limits }: DesiredGroups): void {
  for (const value of values) {
    const group = groupOf(value.controller)
    if (value.controller === 'memory') continue
    if (group !== undefined && existsSync(`${group}/${value.file}`)) writeGroupFile(group, value.file, value.value)
    else refuseMissing(value, limits)
  }
}

function writeMemory({ groupOf, values, limits }: DesiredGroups, version: CgroupLayout['version']): void {
  const group = groupOf('memory')
  const own = values.filter(({ controller }) => controller === 'memory')
  if (group === undefined || own.length === 0) return
  if (version === 1) writeMemoryV1(group, own)
  else writeMemoryV2(group, own, limits.memoryBytes)
}

/** Writes limits of cgroup v1. memsw (memory plus swap) must not be below memory, so it rises first or falls last. */
function writeMemoryV1(group: string, values: readonly GroupValue[]): void {
  const has = readGroupNumber(group, 'memory.limit_in_bytes') ?? 0
  const grows = Number(values[0]?.value) > has
  for (const { file, value } of grows ? [...values].reverse() : values) {
    try {
      writeGroupFile(group, file, value)
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EBUSY') throw memoryInUse()
      throw cause
    }
  }
}

/**
 * Writes limits of cgroup v2. A lower memory.max kills processes. Therefore this function first reclaims memory by
 * memory.high, which kills no process, and checks if that was enough.
 */
function writeMemoryV2(group: string, values: readonly GroupValue[], memoryBytes: number): void {
  writeGroupFile(group, 'memory.high', `${memoryBytes}`)
  try {
    if ((readGroupNumber(group, 'memory.current') ?? 0) > memoryBytes) throw memoryInUse()
    for (const { file, value } of values) writeGroupFile(group, file, value)
  } finally {
    writeGroupFile(group, 'memory.high', 'max')
  }
}

/** Rejects a limit whose controller the host lacks. A guest without I/O limits needs no I/O controller. */
function refuseMissing({ controller }: GroupValue, limits: GroupLimits): void {
  const isIo = controller === 'io' || controller === 'blkio'
  if (!isIo || limitsIo(limits))
    throw conflict(
      'unsupported',
      `this limit is not supported: the kernel of the host has no cgroup controller ${controller}`,
    )
}

function memoryInUse(): Error {
  return conflict('memory_in_use', 'the limit cannot be lowered: the guest uses more memory than the new limit')
}
