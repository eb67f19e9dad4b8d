import { existsSync } from 'node:fs'
import { readGroupKey, writeGroupFile, type CgroupLayout } from '../../host/process/cgroup.js'
import { readKernelFile } from '../../host/process/proc.js'
import { isSoWithin } from '../common/wait.js'

/** Files that freeze a guest's cgroup (kernel: admin-guide/cgroup-v1/freezer-subsystem.rst, cgroup-v2.rst). */
interface Freezer {
  readonly group: string
  readonly file: string
  readonly frozen: string
  readonly thawed: string
  readonly isFrozen: () => boolean
}

/** True if the host can freeze guests. A host with cgroup v1 can lack the freezer hierarchy. */
export function canFreeze({ version, controllers }: CgroupLayout): boolean {
  return version === 2 || controllers.has('freezer')
}

/**
 * Freezes every process of the guest. A process that waits for a disk freezes after the disk has answered.
 * @returns false if the freeze took longer than `timeoutMs`; all processes then continue
 */
export async function freezeGuest(cgroups: CgroupLayout, name: string, timeoutMs: number): Promise<boolean> {
  const freezer = findFreezer(cgroups, name)
  if (!freezer) return false
  if (freezer.isFrozen()) return true
  try {
    writeGroupFile(freezer.group, freezer.file, freezer.frozen)
    const frozen = await isSoWithin(freezer.isFrozen, { timeoutMs })
    if (!frozen) thawContainer(cgroups, name)
    return frozen
  } catch (error) {
    thawContainer(cgroups, name)
    throw error
  }
}

/** Lets a frozen guest continue. For any other guest, only reads one file. */
export function thawContainer(cgroups: CgroupLayout, name: string): void {
  const freezer = findFreezer(cgroups, name)
  if (!freezer) return
  const { group, file, thawed } = freezer
  if ([undefined, thawed].includes(readKernelFile(`${group}/${file}`)?.trim())) return
  try {
    writeGroupFile(group, file, thawed)
  } catch (error) {
    if (existsSync(`${group}/${file}`)) throw error
  }
}

/** Returns undefined if the guest has no group or the host has no freezer. */
function findFreezer(cgroups: CgroupLayout, name: string): Freezer | undefined {
  const hierarchy = cgroups.version === 1 ? cgroups.controllers.get('freezer') : cgroups.unified
  const group = `${hierarchy}/lxc.payload.${name}`
  const freezer = cgroups.version === 1 ? freezerV1(group) : freezerV2(group)
  return existsSync(`${group}/${freezer.file}`) ? freezer : undefined
}

function freezerV1(group: string): Freezer {
  const file = 'freezer.state'
  // The file contains FREEZING until all processes are frozen.
  const isFrozen = (): boolean => readKernelFile(`${group}/${file}`)?.trim() === 'FROZEN'
  return { group, file, frozen: 'FROZEN', thawed: 'THAWED', isFrozen }
}

function freezerV2(group: string): Freezer {
  const isFrozen = (): boolean => readGroupKey(group, 'cgroup.events', 'frozen') === 1
  return { group, file: 'cgroup.freeze', frozen: '1', thawed: '0', isFrozen }
}
