import { chmodSync, statSync } from 'node:fs'
import { readGroupNumber, writeGroupFile, type CgroupLayout } from '../../host/process/cgroup.js'
import { isGone } from '../../host/process/proc.js'
import { subgroups } from './plan-bounds.js'

const groupWrites = 0o020

/**
 * Limits the number and depth of cgroups that a running guest can create (v2), and stops it from creating cgroups at
 * its top level (v1). Only guests that an older agent started need this. Other guests get the limits from a hook at
 * their start (support-files.ts). With v1, a guest can still create cgroups inside its existing child cgroups.
 * @returns true if any limit differed; false if the guest no longer exists
 */
export function boundGroups({ hierarchies, unified }: CgroupLayout, name: string): boolean {
  const locked = hierarchies
    .filter((path) => path !== unified && unified !== undefined)
    .map((path) => `${path}/lxc.payload.${name}`)
    .flatMap((group) => [group, `${group}/cgroup.procs`, `${group}/tasks`])
    .map((path) => whileThere(() => takeBack(path)))
  const bounded = Object.entries({ descendants: subgroups.most, depth: subgroups.depth }).map(([what, most]) =>
    whileThere(() => bound(`${unified}/lxc.payload.${name}`, `cgroup.max.${what}`, most)),
  )
  return [...locked, ...bounded].includes(true)
}

function takeBack(path: string): boolean {
  const { mode } = statSync(path)
  if ((mode & groupWrites) === 0) return false
  chmodSync(path, mode & 0o7777 & ~groupWrites)
  return true
}

function bound(group: string, file: string, most: number): boolean {
  if (readGroupNumber(group, file) === most) return false
  writeGroupFile(group, file, `${most}`)
  return true
}

function whileThere(change: () => boolean): boolean {
  try {
    return change()
  } catch (error) {
    if (isGone(error)) return false
    throw error
  }
}
