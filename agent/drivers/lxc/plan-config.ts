import type { CgroupLayout } from '../../host/process/cgroup.js'
import { systemVolumeOf, type Machine } from '../machine.js'
import { planGuestAddresses } from './plan-assign.js'
import { subgroups } from './plan-bounds.js'
import { limitsIo, limitsOf, planLimits, type GroupLimits, type LimitFacts } from '../common/plan-limits.js'
import { deviceNodes } from '../../../shared/guest-devices.js'

/** Properties of the host and the agent that a guest's configuration depends on. */
export interface ConfigFacts extends LimitFacts {
  /** The guest's name in lxc, unique on the host. */
  readonly name: string
  /** Files and directories that lxcfs offers, relative to its mount, for example `proc/meminfo`. */
  readonly lxcfsEntries: readonly string[]
  readonly lxcfsDir: string
  readonly seccompProfile: string
  /** File that guests see as /proc/cmdline. */
  readonly commandLine: string
  readonly hierarchies: Pick<CgroupLayout, 'hierarchies' | 'unified'>
  readonly addressesHook: string
  readonly groupsHook: string
  readonly mendHook: string
  readonly stoppedHook: string
  readonly marksDir: string
  readonly lxcPath: string
  /** Cgroup to which monitors of ended guests move, so that they can remove their own cgroups. */
  readonly pivotGroup: string
  /** Directory with a node for each device that guests are allowed to use. */
  readonly devicesDir: string
  readonly apparmor: boolean
  /** Directory at which start-guest.pl mounts the guest's volume. Undefined: lxc mounts the volume itself. */
  readonly mountPoint?: string
  /** Highest hard limit of open files for the guest's processes. */
  readonly openFilesMax: number
}

/**
 * Capabilities that guests do not get, because they would only have an effect in the guest's own namespaces. Without
 * them, systemd skips units that would fail anyway (debugfs, clock, modules).
 */
const droppedCapabilities = 'mac_admin mac_override sys_time sys_module sys_rawio'

/**
 * Device numbers of null, zero, full, random, urandom, tty, console, ptmx and pts. Guests cannot use any other device,
 * even if an uploaded image contains a node for it.
 */
const allowedDevices = ['1:3', '1:5', '1:7', '1:8', '1:9', '5:0', '5:1', '5:2', '136:*']

/** Limits of cgroup v2. On hosts that also have v1, lxc ignores these lines, and a hook sets the limits. */
const subgroupBounds = [
  `lxc.cgroup2.cgroup.max.descendants = ${subgroups.most}`,
  `lxc.cgroup2.cgroup.max.depth = ${subgroups.depth}`,
]

const patterns = {
  name: /^[a-z]{1,8}-\d{1,10}$/,
  uuid: /^[0-9a-f-]{36}$/,
  hostname: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
  // Special characters are refused, because lxc passes hook lines to a shell and splits mount lines at spaces.
  path: /^(\/[A-Za-z0-9_.-]+)+$/,
  device: /^[A-Za-z0-9._-]{1,15}$/,
  mac: /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i,
  ipv4: /^\d{1,3}(\.\d{1,3}){3}$/,
  ipv6: /^(?=.*:)[0-9a-f:]{2,39}$/,
  // A path in which commas join controllers that share a hierarchy, such as `cpu,cpuacct`.
  hierarchy: /^(\/[A-Za-z0-9_.,=-]+)+$/,
  group: /^[A-Za-z0-9._-]+$/,
  entry: /^[A-Za-z0-9_./-]+$/,
} as const

/**
 * Plans the lines of a guest's lxc configuration. The configuration does not include Debian's common.conf, because its
 * hooks take 0.5 s at each stop, and it grants rights that guests must not have.
 * @throws {Error} if a value does not match its pattern or range
 */
export function planConfig(machine: Machine, facts: ConfigFacts): string[] {
  const lines = [
    `# uuid ${check('uuid', machine.uuid)}`,
    ...planIdentity(machine, facts),
    ...planConfinement(facts),
    ...planDeviceMounts(machine, facts),
    ...planNic(machine),
    ...planGroups(machine, facts),
    'lxc.hook.version = 1',
    ...planLocks(facts),
    ...planMendedVolume(machine, facts),
    ...planIpv6(machine, facts),
    planStoppedHook(facts),
  ]
  for (const line of lines) refuseControlCharacters(line)
  return lines
}

function planIdentity(machine: Machine, facts: ConfigFacts): string[] {
  const base = integer('userIdBase', machine.isolation.userIdBase, 65_536, 4_294_901_760)
  return [
    `lxc.uts.name = ${check('hostname', machine.hostname)}`,
    `lxc.idmap = u 0 ${base} 65536`,
    `lxc.idmap = g 0 ${base} 65536`,
    ...planVolume(machine, facts),
    'lxc.console.buffer.size = 256KB',
    'lxc.tty.max = 1',
    'lxc.pty.max = 1024',
    'lxc.start.auto = 0',
  ]
}

/** Sets the guest's volume and user ids. With lxc 6, start-guest.pl mounts the volume that `# volume` names. */
function planVolume(machine: Machine, { mountPoint }: ConfigFacts): string[] {
  const volume = check('path', systemVolumeOf(machine))
  if (mountPoint === undefined) return [`lxc.rootfs.path = dir:${volume}`, 'lxc.rootfs.options = idmap=container,nodev']
  return [`# volume ${volume}`, `lxc.rootfs.path = dir:${check('path', mountPoint)}`]
}

/**
 * Mounts the guest's own volume at /mnt of its rescue system. A hook on the host does this, because the guest cannot
 * reach the directory of the volumes.
 */
function planMendedVolume({ boot, volume }: Machine, { mendHook }: ConfigFacts): string[] {
  if (boot?.mode === 'cdrom') throw new Error('only virtual machines have a CD drive')
  if (boot?.mode !== 'rescue') return []
  return [
    'lxc.mount.entry = tmpfs mnt tmpfs create=dir,nodev,nosuid,size=4k 0 0',
    `lxc.hook.start-host = ${check('path', mendHook)} ${check('path', volume)}`,
  ]
}

function planConfinement(facts: ConfigFacts): string[] {
  return [
    `lxc.cap.drop = ${droppedCapabilities}`,
    `lxc.seccomp.profile = ${check('path', facts.seccompProfile)}`,
    // Keeps the seccomp filter that the starting process already has (guest-namespace.ts), in addition to this profile.
    'lxc.seccomp.allow_nesting = 1',
    ...(facts.apparmor ? ['lxc.apparmor.profile = generated', 'lxc.apparmor.allow_nesting = 0'] : []),
    `lxc.prlimit.nofile = 1024:${integer('openFilesMax', facts.openFilesMax, 1024, 2 ** 30)}`,
    // If the agent is protected from the OOM killer, its guests must not inherit this protection.
    'lxc.proc.oom_score_adj = 0',
    'lxc.mount.auto = proc:mixed sys:mixed',
    // Mounts only the tree of cgroup v2. Without this mount, the guest's init would mount all hierarchies.
    'lxc.mount.entry = cgroup2 sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0',
    `lxc.mount.entry = ${check('path', facts.commandLine)} proc/cmdline none bind,ro,optional 0 0`,
    ...facts.lxcfsEntries.map((entry) => planLxcfsMount(facts.lxcfsDir, entry)),
  ]
}

function planLxcfsMount(directory: string, entry: string): string {
  const target = check('entry', entry)
  return `lxc.mount.entry = ${check('path', directory)}/${target} ${target} none bind,optional 0 0`
}

/**
 * Plans mounts of device nodes, because the guest cannot create nodes. The mounts are `optional`, so that the guest
 * starts even if the kernel module was unloaded.
 */
function planDeviceMounts({ devices = [] }: Machine, { apparmor, devicesDir }: ConfigFacts): string[] {
  const mounts = devices.map((device) => {
    const target = deviceNodes[device].path.slice(1)
    return `lxc.mount.entry = ${check('path', devicesDir)}/${device} ${target} none bind,create=file,optional 0 0`
  })
  return apparmor && devices.includes('fuse') ? [...mounts, ...fuseMounts] : mounts
}

/** Rules that permit FUSE mounts. Without these rules, a guest's AppArmor profile would reject the mounts. */
const fuseMounts = ['fuse', 'fuse.*'].map((type) => `lxc.apparmor.raw = mount fstype=${type},`)

function planNic({ nic }: Machine): string[] {
  const prefix = integer('prefixLength', nic.prefixLength, 1, 32)
  return [
    'lxc.net.0.type = veth',
    'lxc.net.0.name = eth0',
    'lxc.net.0.flags = up',
    `lxc.net.0.veth.pair = ${check('device', nic.device)}`,
    `lxc.net.0.link = ${check('device', nic.bridge)}`,
    `lxc.net.0.hwaddr = ${check('mac', nic.mac)}`,
    // Without an explicit broadcast address, lxc 5.0.2 sets a wrong one: 0.0.255.255.
    `lxc.net.0.ipv4.address = ${check('ipv4', nic.ipv4)}/${prefix} ${broadcastOf(nic.ipv4, prefix)}`,
    `lxc.net.0.ipv4.gateway = ${check('ipv4', nic.gateway)}`,
  ]
}

/** Returns the broadcast address of the network that contains the address. */
export function broadcastOf(ipv4: string, prefix: number): string {
  const bytes = ipv4.split('.').map(Number)
  return bytes.map((byte, at) => byte | (255 >> Math.min(8, Math.max(0, prefix - at * 8)))).join('.')
}

function planGroups(machine: Machine, facts: ConfigFacts): string[] {
  const name = check('name', facts.name)
  const numbers = (machine.devices ?? []).map((device) => deviceNodes[device].numbers)
  const key = facts.cgroupVersion === 1 ? 'lxc.cgroup' : 'lxc.cgroup2'
  const wanted = planLimits(checkLimits(machine), facts).filter(
    ({ controller }) => (controller !== 'blkio' && controller !== 'io') || limitsIo(machine.limits),
  )
  return [
    // Puts the guest's cgroups at the root of each hierarchy, instead of into the agent's cgroup.
    'lxc.cgroup.relative = 0',
    `lxc.cgroup.dir.monitor = lxc.monitor.${name}`,
    `lxc.cgroup.dir.container = lxc.payload.${name}`,
    `lxc.cgroup.dir.monitor.pivot = ${check('group', facts.pivotGroup)}`,
    `${key}.devices.deny = a`,
    ...subgroupBounds,
    ...[...allowedDevices, ...numbers].map((numbers) => `${key}.devices.allow = c ${numbers} rwm`),
    ...wanted.map(({ file, value }) => `${key}.${file} = ${value}`),
  ]
}

/**
 * Plans the hook that removes the write access to the guest's v1 cgroups. lxc gives this access to the guest's root,
 * but the kernel cannot limit how many v1 cgroups a guest creates. The hook runs before the guest's first process. From
 * then on, only the host can create cgroups in these cgroups, or move processes.
 */
function planLocks({ name, groupsHook, hierarchies: { hierarchies, unified } }: ConfigFacts): string[] {
  const locked = hierarchies.filter((path) => path !== unified)
  if (locked.length === 0 || unified === undefined) return []
  const groupIn = (path: string): string => `${check('hierarchy', path)}/lxc.payload.${name}`
  const paths = locked.map(groupIn).flatMap((group) => [group, `${group}/cgroup.procs`, `${group}/tasks`])
  return [`lxc.hook.start-host = ${[check('path', groupsHook), groupIn(unified), ...paths].join(' ')}`]
}

/**
 * Sets IPv6 addresses by a hook, with the same commands as for running guests. lxc's own settings cannot set lifetimes,
 * and leave an address tentative for a second, in which no service can bind to the address.
 */
function planIpv6({ nic: { ipv6Addresses, gateway6 } }: Machine, facts: ConfigFacts): string[] {
  if (ipv6Addresses.length === 0) return []
  for (const address of [...ipv6Addresses, gateway6]) check('ipv6', address)
  const commands = planGuestAddresses('dev eth0', { ipv6Addresses, gateway6 })
  const words = [check('path', facts.addressesHook), ...commands.map((command) => `'${command}'`)]
  return [`lxc.hook.start-host = ${words.join(' ')}`]
}

/** Plans the hook for the guest's end. runtime.ts finds the hook's process by the guest's name in its arguments. */
function planStoppedHook(facts: ConfigFacts): string {
  const paths = [facts.stoppedHook, facts.marksDir, facts.lxcPath].map((path) => check('path', path))
  return `lxc.hook.post-stop = ${[...paths, check('name', facts.name)].join(' ')}`
}

function checkLimits(machine: Machine): GroupLimits {
  const limits = limitsOf(machine)
  integer('vcpuMilli', limits.vcpuMilli, 1, 1_000_000)
  integer('memoryBytes', limits.memoryBytes, 1024 * 1024, Number.MAX_SAFE_INTEGER)
  integer('swapBytes', limits.swapBytes, 0, Number.MAX_SAFE_INTEGER)
  integer('pidsMax', limits.pidsMax, 1, 4_194_304)
  integer('ioReadBytesPerSec', limits.ioReadBytesPerSec, 0, Number.MAX_SAFE_INTEGER)
  integer('ioWriteBytesPerSec', limits.ioWriteBytesPerSec, 0, Number.MAX_SAFE_INTEGER)
  integer('ioReadsPerSec', limits.ioReadsPerSec ?? 0, 0, Number.MAX_SAFE_INTEGER)
  integer('ioWritesPerSec', limits.ioWritesPerSec ?? 0, 0, Number.MAX_SAFE_INTEGER)
  for (const cpu of limits.cpus ?? []) integer('cpus', cpu, 0, 65_535)
  return limits
}

function check(pattern: keyof typeof patterns, value: string): string {
  if (!patterns[pattern].test(value)) throw new Error(`not a valid ${pattern}: ${JSON.stringify(value)}`)
  return value
}

function integer(what: string, value: number, low: number, high: number): number {
  if (!Number.isSafeInteger(value) || value < low || value > high)
    throw new Error(`${what} is not a whole number from ${low} to ${high}: ${value}`)
  return value
}

function refuseControlCharacters(line: string): void {
  if (/[\p{Cc}\u2028\u2029]/u.test(line))
    throw new Error(`the line contains a control character: ${JSON.stringify(line)}`)
}
