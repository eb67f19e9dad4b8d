import { existsSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { parsePids, readKernelFile } from './proc.js'

/**
 * Where this host's cgroup controllers are. A hybrid host (v1 controllers, an empty v2 tree at
 * `unified`) counts as v1: its limits are set there.
 */
export interface CgroupLayout {
  readonly version: 1 | 2
  /** Mount points of all hierarchies, v2 included; each holds every guest's group. */
  readonly hierarchies: readonly string[]
  /** Mount point by controller; on v2 all the same. */
  readonly controllers: ReadonlyMap<string, string>
}

const v2Controllers = ['cpu', 'cpuset', 'io', 'memory', 'pids']

/** From the text of /proc/self/mountinfo. */
export function parseCgroupLayout(mountinfo: string): CgroupLayout {
  const hierarchies: string[] = []
  const v1 = new Map<string, string>()
  let unified: string | undefined
  for (const line of mountinfo.split('\n')) {
    const mount = parseCgroupMount(line)
    if (!mount || hierarchies.includes(mount.path)) continue
    if (mount.v2) unified ??= mount.path
    for (const option of mount.options) if (!v1.has(option)) v1.set(option, mount.path)
    hierarchies.push(mount.path)
  }
  if (v1.has('memory')) return { version: 1, hierarchies, controllers: v1 }
  if (unified === undefined) throw new Error('no cgroup hierarchy is mounted')
  const path = unified
  return { version: 2, hierarchies: [path], controllers: new Map(v2Controllers.map((name) => [name, path])) }
}

function parseCgroupMount(line: string): { path: string; v2: boolean; options: string[] } | undefined {
  // Fields of proc_pid_mountinfo(5); the file system type follows the "-".
  const [before, after] = line.split(' - ')
  const [, , , root, path] = (before ?? '').split(' ')
  const [type, , options] = (after ?? '').split(' ')
  if (path === undefined || !path.startsWith('/sys/fs/cgroup') || !root) return undefined
  if (type !== 'cgroup' && type !== 'cgroup2') return undefined
  const controllers = type === 'cgroup' ? (options ?? '').split(',').filter((name) => name !== 'rw') : []
  return { path, v2: type === 'cgroup2', options: controllers }
}

export function readCgroupLayout(): CgroupLayout {
  return parseCgroupLayout(readKernelFile('/proc/self/mountinfo') ?? '')
}

/** Processes directly in the group; none when it is gone. */
export function readGroupPids(group: string): number[] {
  return parsePids(readKernelFile(`${group}/cgroup.procs`) ?? '')
}

/** Processes of the group and all below it. */
export function readTreePids(group: string): number[] {
  return [
    ...readGroupPids(group),
    ...listSubgroups(group).flatMap((name) => readTreePids(`${group}/${name}`)),
  ]
}

export function listSubgroups(group: string): string[] {
  if (!existsSync(group)) return []
  return readdirSync(group, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [entry.name] : [],
  )
}

/** Removes an empty tree of groups, deepest first. Gone already: does nothing. Processes inside: EBUSY. */
export function removeGroupTree(group: string): void {
  for (const name of listSubgroups(group)) removeGroupTree(`${group}/${name}`)
  try {
    rmdirSync(group)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

export function writeGroupFile(group: string, file: string, value: string): void {
  writeFileSync(`${group}/${file}`, value)
}

/** A number from a group's file; `max` and absent files are `undefined`. */
export function readGroupNumber(group: string, file: string): number | undefined {
  const text = readKernelFile(`${group}/${file}`)?.trim()
  return text === undefined || !/^\d+$/.test(text) ? undefined : Number(text)
}

/** One key of a flat keyed file (memory.stat, cpu.stat). */
export function readGroupKey(group: string, file: string, key: string): number | undefined {
  const match = new RegExp(`^${key} (\\d+)$`, 'm').exec(readKernelFile(`${group}/${file}`) ?? '')
  return match ? Number(match[1]) : undefined
}
