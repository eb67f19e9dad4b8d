import { formatCpuList } from '../../../shared/cpu-list.js'
import type { Isolation, Machine, MachineLimits } from '../machine.js'

export type GroupLimits = MachineLimits & Pick<Isolation, 'pidsMax'>

export function limitsOf({ limits, isolation: { pidsMax } }: Pick<Machine, 'limits' | 'isolation'>): GroupLimits {
  return { ...limits, pidsMax }
}

/** Properties of the host that decide how limits are written. */
export interface LimitFacts {
  readonly cgroupVersion: 1 | 2
  /** True if swap is charged to cgroups: memory.memsw (v1) or memory.swap.max (v2) exists. */
  readonly swapAccounting: boolean
  /** True if cgroup v1 can limit the memory of sockets. The kernel counts this memory only for cgroups with a limit. */
  readonly socketAccounting: boolean
  /** `major:minor` of the disk that holds the pool. Undefined: not known. */
  readonly poolDevice?: string
  /** True if cgroups can be pinned to processors. */
  readonly cpusets: boolean
}

/** A value to write to a file of a guest's cgroup, and the controller to which the file belongs. */
export interface GroupValue {
  readonly controller: 'memory' | 'cpu' | 'cpuset' | 'pids' | 'blkio' | 'io'
  readonly file: string
  readonly value: string
}

/** CFS period in µs (the kernel's default). */
const periodUsec = 100_000
const minimumQuotaUsec = 1000

/**
 * Plans a guest's limits as values of cgroup files. Unlimited I/O is written, too, to remove an earlier limit. Sources:
 * Documentation/admin-guide/cgroup-v1/{memory,blkio-controller}.rst, cgroup-v2.rst, sched-bwc.rst
 */
export function planLimits(limits: GroupLimits, facts: LimitFacts): GroupValue[] {
  const others = facts.cgroupVersion === 1 ? planV1(limits, facts) : planV2(limits, facts)
  const { cpus = [] } = limits
  return facts.cpusets && cpus.length > 0 ? [...others, put('cpuset', 'cpuset.cpus', formatCpuList(cpus))] : others
}

function planV1(limits: GroupLimits, facts: LimitFacts): GroupValue[] {
  const both = limits.memoryBytes + limits.swapBytes
  const { ioReadsPerSec: reads = 0, ioWritesPerSec: writes = 0 } = limits
  const { poolDevice: device } = facts
  return [
    put('memory', 'memory.limit_in_bytes', limits.memoryBytes),
    ...(facts.swapAccounting ? [put('memory', 'memory.memsw.limit_in_bytes', both)] : []),
    ...(facts.socketAccounting ? [put('memory', socketLimit, socketBytes(limits.memoryBytes))] : []),
    put('cpu', 'cpu.cfs_period_us', periodUsec),
    put('cpu', 'cpu.cfs_quota_us', quotaUsec(limits)),
    put('cpu', 'cpu.shares', clamp(Math.round((limits.vcpuMilli * 1024) / 1000), 2, 262_144)),
    put('pids', 'pids.max', limits.pidsMax),
    ...(device
      ? [
          put('blkio', 'blkio.throttle.read_bps_device', `${device} ${limits.ioReadBytesPerSec}`),
          put('blkio', 'blkio.throttle.write_bps_device', `${device} ${limits.ioWriteBytesPerSec}`),
          put('blkio', 'blkio.throttle.read_iops_device', `${device} ${reads}`),
          put('blkio', 'blkio.throttle.write_iops_device', `${device} ${writes}`),
        ]
      : []),
  ]
}

const socketLimit = 'memory.kmem.tcp.limit_in_bytes'

/**
 * Returns the limit for socket memory in bytes: an eighth of the memory, but at least 16 MiB. This is enough for
 * thousands of connections, or for tens of fast connections with a long round trip.
 */
function socketBytes(memoryBytes: number): number {
  const pageBytes = 4096
  return Math.max(16 * 1024 * 1024, Math.floor(memoryBytes / 8 / pageBytes) * pageBytes)
}

function planV2(limits: GroupLimits, facts: LimitFacts): GroupValue[] {
  const rate = (most = 0): string => (most > 0 ? `${most}` : 'max')
  const bytes = `rbps=${rate(limits.ioReadBytesPerSec)} wbps=${rate(limits.ioWriteBytesPerSec)}`
  const io = `${bytes} riops=${rate(limits.ioReadsPerSec)} wiops=${rate(limits.ioWritesPerSec)}`
  return [
    put('memory', 'memory.max', limits.memoryBytes),
    ...(facts.swapAccounting ? [put('memory', 'memory.swap.max', limits.swapBytes)] : []),
    put('cpu', 'cpu.max', `${quotaUsec(limits)} ${periodUsec}`),
    put('cpu', 'cpu.weight', clamp(Math.round(limits.vcpuMilli / 10), 1, 10_000)),
    put('pids', 'pids.max', limits.pidsMax),
    ...(facts.poolDevice ? [put('io', 'io.max', `${facts.poolDevice} ${io}`)] : []),
  ]
}

/** Rates of a device without a line in the cgroup's file. They are unlimited: `0` (cgroup v1) or `max` (v2). */
const unlimitedRates = ['0', 'rbps=max', 'wbps=max', 'riops=max', 'wiops=max']

/**
 * True if the cgroup's file contains the value. A file of rates has a line for each limited device. Examples: `8:0
 * 1000000` (v1), `8:0 rbps=1000000 wbps=max riops=max wiops=max` (v2).
 * @param text content of the file; undefined if the file does not exist
 */
export function isWritten({ controller, value }: GroupValue, text: string | undefined): boolean {
  if (controller === 'cpuset' && text === undefined) return true // an older agent started the guest without a cpuset
  if (controller !== 'blkio' && controller !== 'io') return text?.trim() === value
  const [device, ...rates] = value.split(' ')
  const line = text?.split('\n').find((one) => one.startsWith(`${device} `))
  const has = line?.split(' ') ?? unlimitedRates
  return rates.every((rate) => has.includes(rate))
}

function put(controller: GroupValue['controller'], file: string, value: number | string): GroupValue {
  return { controller, file, value: String(value) }
}

function quotaUsec(limits: MachineLimits): number {
  return Math.max(minimumQuotaUsec, Math.round((limits.vcpuMilli * periodUsec) / 1000))
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value))
}

/** True if the guest has an I/O limit. Only such guests need the I/O controller of the host's kernel. */
export function limitsIo(limits: MachineLimits): boolean {
  const { ioReadBytesPerSec, ioWriteBytesPerSec, ioReadsPerSec = 0, ioWritesPerSec = 0 } = limits
  return Math.max(ioReadBytesPerSec, ioWriteBytesPerSec, ioReadsPerSec, ioWritesPerSec) > 0
}
