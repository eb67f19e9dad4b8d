import { readGroupKey, readGroupNumber, readTreePids, type CgroupLayout } from '../../host/process/cgroup.js'
import { findProcess, parseNetDev, readKernelFile, type InterfaceBytes } from '../../host/process/proc.js'
import type { UsageSample } from '../contract.js'

interface LastCpu {
  readonly pid: number
  readonly cpuUsec: number
  readonly atMs: number
}

const interfacesKeptMs = 500
/**
 * Maximum numbers of cgroups and processes that are read for a guest, because a guest can create any number. Reading
 * one takes about 10 µs. A guest with systemd has about 50 cgroups. 256 processors can run at most 256 tasks at once.
 */
const bounds = { groups: 256, pids: 256 }

/**
 * Reads a guest's counters from five to seven small kernel files. Also reads one stat file per task unless the guest is
 * idle. A guest is idle if it used less than 2 ms of processor time per second since the last sample. Its number of
 * runnable tasks is reported as 0. Even with the smallest quota of 1 %, a runnable task would have used 10 ms per
 * second. Tasks of an idle guest that wait for a disk are not counted.
 */
export class UsageReader {
  readonly #last = new Map<string, LastCpu>()
  #interfaces = new Map<string, InterfaceBytes>()
  #interfacesAtMs = -Infinity

  /** @param prefix prefix of the names of the guests' cgroups */
  constructor(
    private readonly cgroups: CgroupLayout,
    private readonly prefix: string,
  ) {}

  /** Reads a sample. @param disk `major:minor` of the volume's disk; undefined: it is not on exactly one disk */
  read(name: string, device: string, pid: number, disk?: string): UsageSample {
    const cpuUsec = this.#readCpuUsec(name)
    // The interface on the host counts the guest's traffic in the opposite direction.
    const { rxBytes, txBytes } = this.#findInterface(device) ?? { rxBytes: 0, txBytes: 0 }
    const runnable = this.#isBusy(name, pid, cpuUsec) ? this.#countRunnable(name) : 0
    const io = disk === undefined ? {} : this.#readIo(name, disk)
    return {
      cpuUsec,
      memoryBytes: this.#readMemory(name),
      rxBytes: txBytes,
      txBytes: rxBytes,
      runnable,
      ...io,
      ...this.#readMemoryKills(name),
    }
  }

  forget(name: string): void {
    this.#last.delete(name)
  }

  #group(controller: string, name: string): string {
    return `${this.cgroups.controllers.get(controller) ?? ''}/${this.prefix}${name}`
  }

  #readCpuUsec(name: string): number {
    if (this.cgroups.version === 2) return readGroupKey(this.#group('cpu', name), 'cpu.stat', 'usage_usec') ?? 0
    return Math.floor((readGroupNumber(this.#group('cpuacct', name), 'cpuacct.usage') ?? 0) / 1000)
  }

  /** Reads the memory in use, as free(1) in the guest shows it: without page cache that can be reclaimed. */
  #readMemory(name: string): number {
    const group = this.#group('memory', name)
    const v1 = this.cgroups.version === 1
    const charged = readGroupNumber(group, v1 ? 'memory.usage_in_bytes' : 'memory.current') ?? 0
    const key = v1 ? 'total_inactive_file' : 'inactive_file'
    return Math.max(0, charged - (readGroupKey(group, 'memory.stat', key) ?? 0))
  }

  /**
   * Reads how many processes the kernel killed because memory ran out. The counter of cgroup v1 leaves out child
   * cgroups, but all processes are in the guest's cgroup itself. The counter of v2 includes child cgroups.
   */
  #readMemoryKills(name: string): Pick<UsageSample, 'memoryKills'> {
    const file = this.cgroups.version === 1 ? 'memory.oom_control' : 'memory.events'
    const memoryKills = readGroupKey(this.#group('memory', name), file, 'oom_kill')
    return memoryKills === undefined ? {} : { memoryKills }
  }

  /** Reads the I/O of the pool's disk only. Requests to a loop device on this disk are included. */
  #readIo(name: string, disk: string): Pick<UsageSample, 'readBytes' | 'writeBytes'> {
    const v1 = this.cgroups.version === 1
    const file = v1 ? 'blkio.throttle.io_service_bytes_recursive' : 'io.stat'
    const text = readKernelFile(`${this.#group(v1 ? 'blkio' : 'io', name)}/${file}`)
    return text === undefined ? {} : parseIo(text, disk)
  }

  #isBusy(name: string, pid: number, cpuUsec: number): boolean {
    const last = this.#last.get(name)
    const atMs = performance.now()
    this.#last.set(name, { pid, cpuUsec, atMs })
    if (last?.pid !== pid) return false // without an earlier sample of this process, idleness is not known
    return (cpuUsec - last.cpuUsec) / Math.max(1, atMs - last.atMs) >= 2
  }

  #countRunnable(name: string): number {
    return this.#listTasks(name)
      .slice(0, bounds.pids)
      .filter((task) => ['R', 'D'].includes(findProcess(task)?.state ?? '')).length
  }

  /**
   * Lists the guest's tasks. With cgroup v1, one file of the freezer hierarchy contains all threads, because systemd
   * creates no cgroups there. With v2, the processes of the guest's cgroup and of all its child cgroups are listed.
   */
  #listTasks(name: string): number[] {
    const freezer = this.cgroups.controllers.get('freezer')
    if (this.cgroups.version === 1 && freezer !== undefined)
      return (readKernelFile(`${freezer}/${this.prefix}${name}/tasks`) ?? '').split('\n').filter(Boolean).map(Number)
    return readTreePids(this.#group('pids', name), bounds)
  }

  /** Finds the counters of an interface. One read of /proc/net/dev serves all guests that are sampled together. */
  #findInterface(device: string): InterfaceBytes | undefined {
    const nowMs = performance.now()
    if (nowMs - this.#interfacesAtMs > interfacesKeptMs) {
      this.#interfaces = parseNetDev(readKernelFile('/proc/net/dev') ?? '')
      this.#interfacesAtMs = nowMs
    }
    return this.#interfaces.get(device)
  }
}

/**
 * Parses lines such as `7:0 Read 4096` (cgroup v1) or `7:0 rbytes=4096 wbytes=0 …` (v2). A disk without a line was not
 * used. Sources: Documentation/admin-guide/cgroup-v1/blkio-controller.rst, cgroup-v2.rst
 */
export function parseIo(text: string, disk: string): { readBytes: number; writeBytes: number } {
  const own = text
    .split('\n')
    .filter((line) => line.startsWith(`${disk} `))
    .join('\n')
  const find = (pattern: RegExp): number => Number(pattern.exec(own)?.[1] ?? 0)
  return { readBytes: find(/ (?:Read |rbytes=)(\d+)/), writeBytes: find(/ (?:Write |wbytes=)(\d+)/) }
}
