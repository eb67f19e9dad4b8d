import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { CgroupLayout } from '../../host/process/cgroup.js'
import { lxcStartProgram } from '../../host/guest/lxc.js'
import { readKernelFile } from '../../host/process/proc.js'
import { run } from '../../host/process/process.js'
import { readGroupFacts, type GroupFacts } from '../common/group-facts.js'

/** Properties of the host that the driver adapts to. */
export interface LxcHostFacts extends GroupFacts {
  readonly apparmor: boolean
  readonly openFilesMax: number
  /** True if lxc can apply `idmap` with another program's user namespace. This is possible before version 6 of lxc. */
  readonly mountsIdmapped: boolean
}

export async function readHostFacts(): Promise<LxcHostFacts> {
  return {
    ...readGroupFacts(),
    apparmor: hasAppArmor(),
    openFilesMax: readOpenFilesMax(),
    mountsIdmapped: (await readMajor()) < 6,
  }
}

/**
 * True if guests can have AppArmor profiles. This requires apparmor_parser in addition to the kernel's support, because
 * LXC loads the profiles with this program. Without the program, no guest would start.
 */
function hasAppArmor(): boolean {
  const enabled = readKernelFile('/sys/module/apparmor/parameters/enabled')?.startsWith('Y') ?? false
  return enabled && ['/sbin', '/usr/sbin'].some((directory) => existsSync(`${directory}/apparmor_parser`))
}

/** Returns the major version of lxc; 0 if it is not installed. */
async function readMajor(): Promise<number> {
  if (!existsSync(lxcStartProgram)) return 0
  const { stdout } = await run(lxcStartProgram, ['--version'])
  return Number.parseInt(stdout)
}

/** Kernel parameters with which a host uses only cgroup v2. */
const unifiedParameters = 'systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all'

/** Returns the reason why guests cannot run on this host. Undefined: guests can run. */
export function findHindrance(lxcPath: string, cgroups: CgroupLayout): string | undefined {
  try {
    accessSync(lxcStartProgram, constants.X_OK)
  } catch {
    return `${lxcStartProgram} does not exist: install the package lxc`
  }
  if (!existsSync('/proc/self/ns/user')) return 'the kernel has no user namespaces'
  const unlimited = findCgroupHindrance(cgroups)
  if (unlimited !== undefined) return unlimited
  const closed = ancestors(lxcPath).find((path) => (statSync(path).mode & 0o001) === 0)
  if (closed !== undefined) return `the root users of guests cannot enter ${closed}: run chmod o+x ${closed}`
  return undefined
}

/** Returns the reason, if any, why lxc cannot limit guests. lxc 5.0.2 ignores limits of cgroup v2 if v1 is mounted. */
export function findCgroupHindrance({ version, hierarchies, unified }: CgroupLayout): string | undefined {
  if (unified === undefined) return 'no cgroup2 tree for the groups of guests is mounted below /sys/fs/cgroup'
  const left = hierarchies.filter((path) => path !== unified)
  if (version === 1 || left.length === 0) return undefined
  return (
    `memory is limited by cgroup v2, but lxc does not set these limits while ${left.join(', ')} of cgroup v1 ` +
    `${left.length === 1 ? 'is' : 'are'} mounted: boot the host with ${unifiedParameters}`
  )
}

function ancestors(path: string): string[] {
  return path === '/' ? ['/'] : [...ancestors(dirname(path)), path]
}

/** Returns warnings about features that guests lack on a host with cgroup v1. */
export function describeCgroups({ version }: CgroupLayout): string[] {
  if (version === 2) return []
  return [
    'this host has cgroup v1: services inside guests have no limits of their own, and io_write_mbps does not limit ' +
      'the data of a guest that the kernel writes to the disk later; ' +
      `boot the host with ${unifiedParameters}`,
  ]
}

/** Returns a warning that guests' I/O limits have no effect if the pool is not on a single disk. */
export function describeThrottling(numbers: string | undefined): string[] {
  if (numbers !== undefined) return []
  return ['the pool is not on a single disk: io_read_mbps and io_write_mbps of its guests have no effect']
}

const lxcfsFiles = ['cpuinfo', 'diskstats', 'loadavg', 'meminfo', 'slabinfo', 'stat', 'swaps', 'uptime']
const lxcfsEntries = [...lxcfsFiles.map((name) => `proc/${name}`), 'sys/devices/system/cpu']

/** Returns the files that lxcfs offers now; [] if lxcfs is not running. */
export function listLxcfsEntries(lxcfsDir: string): string[] {
  // If lxcfs has died, its mount fails with ENOTCONN. existsSync() then returns false.
  return lxcfsEntries.filter((entry) => existsSync(`${lxcfsDir}/${entry}`))
}

export function hasLxcfs(lxcfsDir: string): boolean {
  return lxcfsEntries.some((entry) => existsSync(`${lxcfsDir}/${entry}`))
}

/** Returns guests' limit of open files: systemd's default, or the agent's lower limit if it lacks CAP_SYS_RESOURCE. */
function readOpenFilesMax(): number {
  const wanted = 524_288
  const capabilities = /^CapEff:\s*([0-9a-f]+)$/m.exec(readKernelFile('/proc/self/status') ?? '')?.[1]
  const capSysResource = 24n
  if ((BigInt(`0x${capabilities ?? '0'}`) >> capSysResource) & 1n) return wanted
  const own = /^Max open files\s+\d+\s+(\d+)/m.exec(readKernelFile('/proc/self/limits') ?? '')?.[1]
  return Math.min(wanted, Number(own ?? 1024))
}
