import { closeSync, existsSync, openSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isGone, parsePids, readKernelFile } from './proc.js'

/**
 * Locations of this host's cgroup controllers. A hybrid host has v1 controllers and an empty v2 tree at `unified`. It
 * counts as version 1, because limits are set in v1.
 */
export interface CgroupLayout {
  /** Version of the memory controller. A host of version 2 can also have v1 hierarchies. */
  readonly version: 1 | 2
  /** Mount points of all hierarchies of cgroup v1 and v2. Each of them contains a group for every guest. */
  readonly hierarchies: readonly string[]
  /** Mount point of cgroup v2. Undefined on some hosts that use cgroup v1. */
  readonly unified?: string
  /** Mount point of each controller. In version 2, all mount points are the same. */
  readonly controllers: ReadonlyMap<string, string>
}

const v2Controllers = ['cpu', 'cpuset', 'io', 'memory', 'pids']

export function parseCgroupLayout(mountinfo: string): CgroupLayout {
  const hierarchies: string[] = []
  const v1 = new Map<string, string>()
  let unified: string | undefined
  for (const line of mountinfo.split('\n')) {
    const mount = parseCgroupMount(line)
    if (!mount || hierarchies.includes(mount.path)) continue
    if (mount.v2 && unified !== undefined) continue
    if (mount.v2) unified = mount.path
    for (const option of mount.options) if (!v1.has(option)) v1.set(option, mount.path)
    hierarchies.push(mount.path)
  }
  if (v1.has('memory'))
    return { version: 1, hierarchies, controllers: v1, ...(unified === undefined ? {} : { unified }) }
  if (unified === undefined) throw new Error('the host has no mounted cgroup hierarchy')
  const path = unified
  const controllers = new Map(v2Controllers.map((name) => [name, path]))
  return { version: 2, hierarchies, controllers, unified: path }
}

function parseCgroupMount(line: string): { path: string; v2: boolean; options: string[] } | undefined {
  // The line has the format of proc_pid_mountinfo(5), with the file system type after the `-`.
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

/** Reads the pids of processes in the group itself, without groups below it. Empty if the group does not exist. */
export function readGroupPids(group: string): number[] {
  return parsePids(readKernelFile(`${group}/cgroup.procs`) ?? '')
}

/** Limits for reading a tree, which a guest can make arbitrarily large. */
export interface TreeBounds {
  readonly groups: number
  readonly pids: number
}

/** Reads the pids of processes in the group and in all groups below it, as far as `TreeBounds` allows. */
export function readTreePids(
  group: string,
  { groups, pids: most }: TreeBounds = { groups: Infinity, pids: Infinity },
): number[] {
  const pids: number[] = []
  let seen = 0
  for (const { path, visit } of walkGroups(group)) {
    if (visit === 'leave') continue
    for (const pid of readGroupPids(path)) pids.push(pid)
    seen += 1
    if (pids.length >= most || seen >= groups) break
  }
  return pids.slice(0, most)
}

/** Length from which a path is shortened. A shorter path with a name (255) and a file stays below PATH_MAX (4096). */
const longPath = 2048

/**
 * Walks a tree and visits each group before and after the groups below it. A guest can nest groups deeper than the
 * limits of paths and of the call stack. A long path is therefore replaced by a path relative to an open descriptor.
 * The caller must use each path before it requests the next one.
 */
function* walkGroups(top: string): Generator<{ path: string; visit: 'enter' | 'leave' }> {
  const above: { path: string; at: string; fd: number | undefined; names: string[] }[] = []
  const enter = (path: string): { path: string; visit: 'enter' } => {
    const fd = path.length > longPath ? openGroup(path) : undefined
    const at = fd === undefined ? path : `/proc/self/fd/${fd}`
    above.push({ path, at, fd, names: listSubgroups(at) })
    return { path, visit: 'enter' }
  }
  try {
    yield enter(top)
    for (let group = above.at(-1); group; group = above.at(-1)) {
      const name = group.names.pop()
      if (name !== undefined) {
        yield enter(`${group.at}/${name}`)
        continue
      }
      above.pop()
      if (group.fd !== undefined) closeSync(group.fd)
      yield { path: group.path, visit: 'leave' }
    }
  } finally {
    for (const { fd } of above) if (fd !== undefined) closeSync(fd)
  }
}

function openGroup(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

export function listSubgroups(group: string): string[] {
  if (!existsSync(group)) return []
  try {
    const entries = readdirSync(group, { withFileTypes: true })
    return entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  } catch (error) {
    if (isGone(error)) return []
    throw error
  }
}

/** Number of groups that are removed in one turn of the event loop. Each takes about 20 µs. */
const removedInTurn = 100

/**
 * Removes a tree of groups, the deepest ones first. Does nothing if the tree does not exist.
 * @throws EBUSY if it contains processes
 */
export async function removeGroupTree(group: string): Promise<void> {
  let visits = 0
  for (const { path, visit } of walkGroups(group)) {
    if (visit === 'leave') removeGroup(path)
    visits += 1
    if (visits % removedInTurn === 0) await nextTurn()
  }
}

function removeGroup(group: string): void {
  try {
    rmdirSync(group)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

export function writeGroupFile(group: string, file: string, value: string): void {
  writeFileSync(`${group}/${file}`, value)
}

/** Reads a number from a file of a group; undefined for `max` and for a missing file. */
export function readGroupNumber(group: string, file: string): number | undefined {
  const text = readKernelFile(`${group}/${file}`)?.trim()
  return text === undefined || !/^\d+$/.test(text) ? undefined : Number(text)
}

/** Reads the value of a key in a file with one key per line, such as memory.stat and cpu.stat. */
export function readGroupKey(group: string, file: string, key: string): number | undefined {
  const match = new RegExp(`^${key} (\\d+)$`, 'm').exec(readKernelFile(`${group}/${file}`) ?? '')
  return match ? Number(match[1]) : undefined
}
