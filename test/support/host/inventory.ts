import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { waitFor } from '../wait.js'

/*
 * Reads the state of the host with ip, nft, btrfs and /proc, without the agent's code. Tests compare it with the
 * desired state from journal-inventory.ts. The two states consist of sorted lines, so that differences are readable.
 */

export interface Instance {
  readonly stateDir: string
  /** Directory of runtime files. By default `run` next to `stateDir`. */
  readonly runDir?: string
  readonly pool: string
  readonly table: string
  readonly interfacePrefix: string
  /** Present if the agent has a network namespace of its own. */
  readonly namespace?: string
}

export interface Inventory {
  /** Names of the guests' volumes in the pool, including those of rescue systems. */
  readonly subvolumes: string[]
  /** Faults of btrfs quotas: quota groups without a subvolume, and disks without a limit. */
  readonly quotaFaults: string[]
  /** Lines `id first-uid` from the configurations of lxc. */
  readonly idmaps: string[]
  /** Lines `"device" . mac . address`. */
  readonly antiSpoofing: string[]
  /** Lines `protocol . host port : address . port`. */
  readonly ports: string[]
  readonly interfaces: string[]
  /** Names of running containers, found by their monitor processes. */
  readonly monitors: string[]
  /** Lines `name first-uid` of running virtual machines, found by their processes. */
  readonly machines: string[]
  /** Lines `name: file …` of virtual machines: configuration files of all, and runtime files of running ones. */
  readonly machineFiles: string[]
  readonly cgroups: string[]
  /** Names of lxc lock files without a guest. */
  readonly locks: string[]
  /** Mounts below the pool. */
  readonly mounts: string[]
}

/** @param instance names and directories of the agent under test */
export function readInventory(instance: Instance): Inventory {
  return {
    subvolumes: readdirSync(join(instance.pool, 'guests')).sort(),
    quotaFaults: readQuotaFaults(instance),
    idmaps: readIdmaps(instance),
    antiSpoofing: readElements(instance, 'bridge', 'guests'),
    ports: readElements(instance, 'ip', 'ports'),
    interfaces: readInterfaces(instance),
    monitors: readMonitors(instance),
    machines: readMachines(instance),
    machineFiles: readMachineFiles(instance),
    cgroups: readCgroups(instance),
    locks: readLocks(instance),
    mounts: readMounts(instance),
  }
}

/**
 * Waits until btrfs has removed deleted subvolumes, because their quota groups exist until then. Forces a commit,
 * because the removal could otherwise take 30 s. The agent only forces a commit while it waits for the freed space.
 */
export async function finishDeletions({ pool }: Instance): Promise<void> {
  await waitFor(() => readdirSync(join(pool, 'trash')).length === 0, {
    what: () => `an empty trash: ${readdirSync(join(pool, 'trash')).join(', ')}`,
  })
  command('btrfs', ['filesystem', 'sync', pool])
  // Polls the list, because `btrfs subvolume sync` checks only every second.
  const left = (): string => command('btrfs', ['subvolume', 'list', '-d', pool])
  await waitFor(() => left() === '', { what: () => `deletions: ${left()}` })
}

function readQuotaFaults({ pool }: Instance): string[] {
  const ids = new Map<string, string>()
  for (const line of command('btrfs', ['subvolume', 'list', pool]).split('\n')) {
    const [, id, path] = /^ID (\d+) .* path (.*)$/.exec(line) ?? []
    if (id && path) ids.set(`0/${id}`, path)
  }
  const lines = command('btrfs', ['qgroup', 'show', '-pre', '--raw', pool]).split('\n').slice(2)
  const groups = lines.map((line) => line.trim().split(/\s+/))
  const limits = new Map(groups.map(([group = '', , , limit = '']) => [group, limit]))
  // False for a virtual machine. Its data cannot exceed the size of its disk, so its quota group has no limit.
  const isBound = (path: string): boolean => !existsSync(join(pool, path, 'disk.raw'))
  const faults = subvolumeFaults(groups, ids, limits).filter(({ path }) => path === undefined || isBound(path))
  return [...guestGroupFaults(groups), ...faults.map(({ fault }) => fault)]
}

/** Finds guests' quota groups (level 190) that have data but no members. The next sweep deletes groups without data. */
function guestGroupFaults(groups: readonly string[][]): string[] {
  const left = groups.filter(
    ([group = '', owned]) => /^190\//.test(group) && owned !== '0' && !groups.some((other) => other[5] === group),
  )
  return left.map(([group, owned]) => `quota group ${group} without a guest, with ${owned} bytes`)
}

function subvolumeFaults(
  groups: readonly string[][],
  ids: ReadonlyMap<string, string>,
  limits: ReadonlyMap<string, string>,
): { fault: string; path?: string }[] {
  return groups.flatMap(([group = '', owned = '', , , , parent = '']) => {
    if (!/^0\/(?!5$)\d+$/.test(group)) return []
    const path = ids.get(group)
    if (path !== undefined)
      return path.startsWith('guests/') && (limits.get(parent) ?? limits.get(group) ?? 'none') === 'none'
        ? [{ fault: `${path} without a limit`, path }]
        : []
    // After a restore, the quota group of the replaced subvolume may still have data (docs/design/storage.md). This is
    // allowed if its parent group also contains a subvolume that exists.
    const isHeld = groups.some(([other = '', , , , , of]) => of === parent && ids.has(other))
    return /^190\//.test(parent) && isHeld
      ? []
      : [{ fault: `quota group ${group} without a subvolume, with ${owned} bytes` }]
  })
}

function readIdmaps({ stateDir }: Instance): string[] {
  const root = join(stateDir, 'lxc')
  if (!existsSync(root)) return []
  return readdirSync(root)
    .map((name) => {
      const config = readIfThere(join(root, name, 'config'))
      const [, base = 'unknown'] = /^lxc\.idmap = u 0 (\d+) 65536$/m.exec(config) ?? []
      return `${name.split('-').at(-1)} ${base}`
    })
    .sort()
}

/** Returns an empty text if the file is missing, because its guest may be deleted at any moment. */
function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return ''
  }
}

function readElements(instance: Instance, family: string, set: string): string[] {
  const kind = set === 'ports' ? 'map' : 'set'
  const text = networkCommand(instance, 'nft', ['-n', 'list', kind, family, instance.table, set])
  const [, body = ''] = /elements = \{([^}]*)\}/.exec(text) ?? []
  return body
    .split(',')
    .map((element) => element.trim().replace(/\s+/g, ' '))
    .filter(Boolean)
    .sort()
}

export function readInterfaces(instance: Instance): string[] {
  const links = JSON.parse(networkCommand(instance, 'ip', ['-json', 'link', 'show'])) as { ifname: string }[]
  const pattern = new RegExp(`^${instance.interfacePrefix}\\d+u?$`)
  return links
    .map(({ ifname }) => ifname)
    .filter((name) => pattern.test(name))
    .sort()
}

/**
 * Reads the forwarding settings of the network as `name = value`. Omits guests' interfaces and the bridge, because
 * their settings are deleted together with them.
 */
export function readForwarding(instance: Pick<Instance, 'namespace'>, bridge: string): string[] {
  const pattern =
    '^net.(ipv4.(ip_forward|conf.*.forwarding)|ipv6.(conf.*.(forwarding|proxy_ndp|accept_ra)|neigh.*.proxy_delay))$'
  return networkCommand(instance, 'sysctl', ['-a', '-e', '--pattern', pattern])
    .split('\n')
    .filter((line) => line !== '' && !line.includes(`.${bridge}.`) && !/\.bt\d+u?\./.test(line))
    .sort()
}

function readMonitors({ stateDir }: Instance): string[] {
  return processes()
    .flatMap(({ command: line }) => {
      const [, path, name] = /^\[lxc monitor\] (\S+) (\S+)$/.exec(line) ?? []
      return path === join(stateDir, 'lxc') && name ? [name] : []
    })
    .sort()
}

function readMachines(instance: Instance): string[] {
  return findMachines(instance)
    .flatMap(({ name, pid }) => {
      const [, uid] = /^Uid:\t(\d+)/m.exec(readIfThere(`/proc/${pid}/status`)) ?? []
      return uid === undefined ? [] : [`${name} ${uid}`]
    })
    .sort()
}

function findMachines({ interfacePrefix }: Instance): (HostProcess & { name: string })[] {
  const pattern = new RegExp(`^/usr/bin/qemu-system-x86_64 -name guest=(${interfacePrefix}-\\d+),`)
  return processes().flatMap((found) => {
    const [, name] = pattern.exec(found.command) ?? []
    return name === undefined ? [] : [{ ...found, name }]
  })
}

/** Files that stay until a guest is deleted: its lock, and the last output of QEMU. */
const keptFiles = ['lock', 'log']
function readMachineFiles({ stateDir, runDir = join(stateDir, '../run') }: Instance): string[] {
  const roots = [join(stateDir, 'kvm'), join(runDir, 'kvm')].filter((root) => existsSync(root))
  return roots
    .flatMap((root) => readdirSync(root).map((name) => [name, readdirIfThere(join(root, name))] as const))
    .map(([name, files]) => [name, files.filter((file) => !keptFiles.includes(file))] as const)
    .filter(([, files]) => files.length > 0)
    .map(([name, files]) => `${name}: ${files.sort().join(' ')}`)
    .sort()
}

function readdirIfThere(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return [] // deleted in the meantime
  }
}

function readCgroups({ interfacePrefix }: Instance): string[] {
  const roots = ['/sys/fs/cgroup', ...readdirSync('/sys/fs/cgroup').map((name) => join('/sys/fs/cgroup', name))]
  const pattern = new RegExp(`^(?:lxc|kvm)\\.payload\\.(${interfacePrefix}-\\d+)$`)
  const names = roots.flatMap((root) => {
    try {
      return readdirSync(root).flatMap((name) => pattern.exec(name)?.[1] ?? [])
    } catch {
      return [] // a file, not a directory
    }
  })
  return [...new Set(names)].sort()
}

/** Returns lock files that belong to no guest. A guest that never started may have no lock file. */
function readLocks({ stateDir }: Instance): string[] {
  const root = join('/run/lxc/lock', stateDir, 'lxc')
  const names = existsSync(root) ? readdirSync(root).map((name) => name.slice(1)) : []
  return names.filter((name) => !existsSync(join(stateDir, 'lxc', name))).sort()
}

function readMounts({ pool }: Instance): string[] {
  return readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${pool}/`))
}

export interface HostProcess {
  pid: number
  command: string
  /** Start time in clock ticks after boot. The pid and the start time together identify a process. */
  startTime: string
}

export function processes(): HostProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
        return [
          {
            pid: Number(pid),
            command: line,
            startTime: stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '',
          },
        ]
      } catch {
        return [] // the process has ended
      }
    })
}

/**
 * Limits of a running guest's cgroups. I/O limits are the limits of the first limited device; 0 stands for no limit.
 */
export interface GuestGroupLimits {
  readonly memoryBytes: number
  /** CPU time in microseconds that the guest may use per 100 ms. */
  readonly quotaUsec: number
  readonly readBytesPerSec: number
  readonly writeBytesPerSec: number
}

/** @param name name of the guest in lxc */
export function readGuestLimits(name: string): GuestGroupLimits {
  const v1 = existsSync('/sys/fs/cgroup/memory')
  const read = (controller: string, file: string): string =>
    readFileSync(join('/sys/fs/cgroup', v1 ? controller : '', `lxc.payload.${name}`, file), 'utf8').trim()
  const rate = (file: string, key: string): number =>
    Number(new RegExp(`${v1 ? ' ' : `${key}=`}(\\d+)`).exec(read('blkio', v1 ? file : 'io.max'))?.[1] ?? 0)
  return {
    memoryBytes: Number(read('memory', v1 ? 'memory.limit_in_bytes' : 'memory.max')),
    quotaUsec: parseInt(read('cpu', v1 ? 'cpu.cfs_quota_us' : 'cpu.max')),
    readBytesPerSec: rate('blkio.throttle.read_bps_device', 'rbps'),
    writeBytesPerSec: rate('blkio.throttle.write_bps_device', 'wbps'),
  }
}

/** Returns `name → pid:startTime` of each running container's first process, which is the child of its monitor. */
export function readInits({ stateDir }: Instance): Map<string, string> {
  return readInitsBelow(join(stateDir, 'lxc'))
}

/** Like `readInits`. @param lxcPath directory of the containers, which is part of the titles of their monitors */
export function readInitsBelow(lxcPath: string): Map<string, string> {
  const inits = new Map<string, string>()
  for (const { pid, command: line } of processes()) {
    const [, path, name] = /^\[lxc monitor\] (\S+) (\S+)$/.exec(line) ?? []
    if (path !== lxcPath || !name) continue
    const child = readChildren(pid)[0]
    const found = child ? processes().find((p) => p.pid === Number(child)) : undefined
    if (found) inits.set(name, `${found.pid}:${found.startTime}`)
  }
  return inits
}

/** Returns `name → pid:startTime` of each running virtual machine. */
export function readMachineProcesses(instance: Instance): Map<string, string> {
  return new Map(findMachines(instance).map(({ name, pid, startTime }) => [name, `${pid}:${startTime}`]))
}

/** Returns the pids of a process's children; [] if the process has ended. */
function readChildren(pid: number): string[] {
  const path = `/proc/${pid}/task/${pid}/children`
  try {
    return readFileSync(path, 'utf8').trim().split(' ').filter(Boolean)
  } catch {
    return []
  }
}

export function networkCommand({ namespace }: Pick<Instance, 'namespace'>, program: string, args: string[]): string {
  return namespace === undefined
    ? command(program, args)
    : command('ip', ['netns', 'exec', namespace, program, ...args])
}

function command(program: string, args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
}
