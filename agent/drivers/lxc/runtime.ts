import { readGroupPids, readTreePids, type CgroupLayout } from '../../host/process/cgroup.js'
import {
  findLiveProcess,
  findNamespace,
  findProgram,
  listDirectory,
  readChildren,
  readKernelFile,
  type ProcessStat,
} from '../../host/process/proc.js'
import type { ObservedState } from '../contract.js'
import type { LxcPaths } from './paths.js'

/** State of a guest's processes according to the kernel. */
export interface LxcRuntime {
  readonly state: ObservedState
  readonly monitor?: ProcessStat
  readonly init?: ProcessStat
  /** Processes that will start a rebooting guest again (support-files.ts). */
  readonly restarters: readonly ProcessStat[]
}

/** True if the guest has neither a monitor nor a process that restarts it, so that its state cannot change. */
export function isRuntimeGone({ monitor, restarters }: LxcRuntime): boolean {
  return monitor === undefined && restarters.length === 0
}

interface ProcessInfo {
  readonly stat: ProcessStat
  /** Words of the process's command line. */
  readonly title: readonly string[]
}

/** Maximum number of reads of the pivot group by `#listPassing`. A reboot runs up to five processes in sequence. */
const mostLooks = 5
/** Maximum wait in ms until a process executes a program. On a busy host, this takes up to a few ms. */
const executingMs = 10

const youngTicks = 1000 // 10 s, in the unit of start times (1/100 s)

/**
 * Reads guests' state from their cgroups, which only the host's root can enter. Command lines are not used, because a
 * guest can fake them.
 */
export class LxcRuntimeReader {
  readonly #hierarchy: string
  readonly #running = new Map<string, LxcRuntime>()
  readonly #ownPidNamespace = findNamespace(process.pid, 'pid')

  constructor(
    readonly cgroups: CgroupLayout,
    private readonly paths: Pick<LxcPaths, 'lxcPath' | 'pivotGroup'>,
  ) {
    this.#hierarchy = cgroups.controllers.get('pids') ?? cgroups.hierarchies[0] ?? '/sys/fs/cgroup'
  }

  /**
   * Lists the names of all guests that have a cgroup or are rebooting. A guest can begin or end its reboot meanwhile.
   * Therefore the cgroups are listed before and after the search for rebooting guests.
   */
  listNames(prefix: string): string[] {
    const group = new RegExp(`^lxc\\.(?:monitor|payload)\\.(${prefix}-\\d+)$`)
    const name = new RegExp(`^${prefix}-\\d+$`)
    const inGroups = (): string[] => listDirectory(this.#hierarchy).flatMap((entry) => group.exec(entry)?.[1] ?? [])
    const passing = (): string[] => this.#listPassing().flatMap(({ title }) => title.filter((part) => name.test(part)))
    return [...new Set([...inGroups(), ...passing(), ...inGroups()])]
  }

  /**
   * Reads the guest's state. If its first process and that process's parent are the same as at the last read, the guest
   * still runs, and nothing else is read.
   */
  read(name: string): LxcRuntime {
    const known = this.#running.get(name)
    if (known?.init && known.monitor) {
      const init = findLiveProcess(known.init.pid)
      if (init?.startTime === known.init.startTime && init.parentPid === known.monitor.pid) return known
      this.#running.delete(name)
    }
    const found = this.#readGroups(name)
    if (found.state === 'running') this.#running.set(name, found)
    return found
  }

  #readGroups(name: string): LxcRuntime {
    const monitor = this.#findMonitor(name)
    if (monitor) return this.#readMonitored(monitor)
    const passing = this.#listPassing().filter(({ title }) => title.includes(name))
    const ending = passing.find(({ title }) => title[0] === '[lxc')?.stat
    const restarters = passing.flatMap(({ title, stat }) => (title[0] === '[lxc' ? [] : [stat]))
    if (restarters.length > 0) return { state: 'starting', ...(ending && { monitor: ending }), restarters }
    if (ending) return { state: 'stopping', monitor: ending, restarters }
    // Searches the monitor again, because a rebooting guest can have got a new monitor after the first search.
    const back = this.#findMonitor(name)
    if (back) return this.#readMonitored(back)
    return { state: this.payloadPids(name).length > 0 ? 'stopping' : 'stopped', restarters }
  }

  #readMonitored(monitor: ProcessStat): LxcRuntime {
    const init = this.#findInit(monitor)
    const restarters: ProcessStat[] = []
    if (!init) return { state: isYoung(monitor) ? 'starting' : 'stopping', monitor, restarters }
    return { state: isExecuted(init, monitor) ? 'running' : 'starting', monitor, init, restarters }
  }

  /** Returns the pids of all processes of the guest, even if its monitor (lxc's process for the guest) has ended. */
  payloadPids(name: string): number[] {
    return readTreePids(`${this.#hierarchy}/lxc.payload.${name}`).filter((pid) => findLiveProcess(pid))
  }

  /** Finds the monitor in its cgroup, which also contains hooks. The monitor's parent is outside of the cgroup. */
  #findMonitor(name: string): ProcessStat | undefined {
    const stats = readGroupPids(`${this.#hierarchy}/lxc.monitor.${name}`)
      .map(findLiveProcess)
      .filter((stat) => stat !== undefined)
    return stats.find((stat) => !stats.some((other) => other.pid === stat.parentPid))
  }

  /**
   * Lists the processes in the pivot group, a cgroup for cleanup. The monitor of an ended guest moves to this group,
   * removes its own cgroup, runs the stop hook and ends. If the guest reboots, the hook leaves a process that starts
   * the guest again. A guest's own processes are never in this group, so the command lines in it are trustworthy. If a
   * process ends during a read, the result may lack its new child. Therefore the group is then read again.
   */
  #listPassing(): ProcessInfo[] {
    for (let looks = 1; ; looks++) {
      const pids = readTreePids(`${this.#hierarchy}/${this.paths.pivotGroup}`)
      const passing = pids.flatMap(readPassing)
      if (passing.length === pids.length || looks === mostLooks)
        return passing.filter(({ title }) => title.includes(this.paths.lxcPath))
    }
  }

  /** Finds the guest's init: the monitor's child in another pid namespace. Hooks are in the host's namespace. */
  #findInit(monitor: ProcessStat): ProcessStat | undefined {
    for (const pid of readChildren(monitor.pid)) {
      const namespace = findNamespace(pid, 'pid')
      if (namespace !== undefined && namespace !== this.#ownPidNamespace) return findLiveProcess(pid)
    }
    return undefined
  }
}

/** Reads a process. During execve(2), its command line is empty for a moment, so the function then reads again. */
function readPassing(pid: number): ProcessInfo[] {
  const deadline = performance.now() + executingMs
  for (;;) {
    const title = (readKernelFile(`/proc/${pid}/cmdline`) ?? '').split(/[\0 ]/)
    const stat = findLiveProcess(pid)
    if (!stat) return []
    if (title[0] !== '' || performance.now() > deadline) return [{ stat, title }]
  }
}

/**
 * True if the child has executed the guest's init and is no longer lxc-start. The programs' files are compared, because
 * the guest can choose the process's name. Also false for an ending child, which no longer has a program file.
 */
function isExecuted(init: ProcessStat, monitor: ProcessStat): boolean {
  if (init.command !== 'lxc-start') return true
  const [its, lxc] = [findProgram(init.pid), findProgram(monitor.pid)]
  return its !== undefined && lxc !== undefined && its !== lxc
}

/** True if the process is younger than 10 s. Its start time counts from boot, like the clock of hrtime. */
function isYoung({ startTime }: ProcessStat): boolean {
  const nowTicks = Number(process.hrtime.bigint() / 10_000_000n)
  return nowTicks - startTime < youngTicks
}
