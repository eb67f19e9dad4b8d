import { readGroupPids, readTreePids, type CgroupLayout } from '../../host/cgroup.js'
import {
  findLiveProcess,
  findNamespace,
  findProgram,
  listDirectory,
  readChildren,
  readKernelFile,
  type ProcessStat,
} from '../../host/proc.js'
import type { ObservedState } from '../contract.js'
import type { LxcPaths } from './paths.js'

/** What runs of a guest, as the kernel tells. */
export interface Runtime {
  readonly state: ObservedState
  readonly monitor?: ProcessStat
  /** The guest's first process. */
  readonly init?: ProcessStat
  /** Between two runs: what will start the guest again (support-files.ts). */
  readonly restarters: readonly ProcessStat[]
}

/** Nothing on the host will change the guest's state any more. */
export function isGone({ monitor, restarters }: Runtime): boolean {
  return monitor === undefined && restarters.length === 0
}

interface Passing {
  readonly stat: ProcessStat
  /** The words of its command line. */
  readonly title: readonly string[]
}

/** A starting guest goes through this many processes: so many can end while they are looked at, each leaving the next. */
const mostLooks = 5
/** Executing a program takes a fraction of a millisecond, on a busy host some. */
const executingMs = 10

const youngTicks = 1000 // 10 s at the kernel's 100 Hz for user space

/**
 * From the guest's groups, which only root on the host can enter, not from command lines, which a guest
 * can fake.
 */
export class RuntimeReader {
  readonly #hierarchy: string
  readonly #running = new Map<string, Runtime>()
  readonly #ownPidNamespace = findNamespace(process.pid, 'pid')

  constructor(
    readonly cgroups: CgroupLayout,
    private readonly paths: Pick<LxcPaths, 'lxcPath' | 'pivotGroup'>,
  ) {
    this.#hierarchy = cgroups.controllers.get('pids') ?? cgroups.hierarchies[0] ?? '/sys/fs/cgroup'
  }

  /**
   * Names of all guests with a group of their own, running or left over, or between two runs: these come from a
   * group and go back to it, so groups are listed before and after.
   */
  listNames(prefix: string): string[] {
    const group = new RegExp(`^lxc\\.(?:monitor|payload)\\.(${prefix}-\\d+)$`)
    const name = new RegExp(`^${prefix}-\\d+$`)
    const inGroups = (): string[] =>
      listDirectory(this.#hierarchy).flatMap((entry) => group.exec(entry)?.[1] ?? [])
    const passing = (): string[] =>
      this.#listPassing().flatMap(({ title }) => title.filter((part) => name.test(part)))
    return [...new Set([...inGroups(), ...passing(), ...inGroups()])]
  }

  /** A guest seen running costs one file: its first process, still the same, still its monitor's child. */
  read(name: string): Runtime {
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

  #readGroups(name: string): Runtime {
    const monitor = this.#findMonitor(name)
    if (monitor) return this.#readMonitored(monitor)
    const passing = this.#listPassing().filter(({ title }) => title.includes(name))
    const ending = passing.find(({ title }) => title[0] === '[lxc')?.stat
    const restarters = passing.flatMap(({ title, stat }) => (title[0] === '[lxc' ? [] : [stat]))
    if (restarters.length > 0) return { state: 'starting', ...(ending && { monitor: ending }), restarters }
    if (ending) return { state: 'stopping', monitor: ending, restarters }
    // A guest that reboots comes from there back to its group: perhaps between the two looks.
    const back = this.#findMonitor(name)
    if (back) return this.#readMonitored(back)
    return { state: this.payloadPids(name).length > 0 ? 'stopping' : 'stopped', restarters }
  }

  #readMonitored(monitor: ProcessStat): Runtime {
    const init = this.#findInit(monitor)
    const restarters: ProcessStat[] = []
    if (!init) return { state: isYoung(monitor) ? 'starting' : 'stopping', monitor, restarters }
    return { state: isExecuted(init, monitor) ? 'running' : 'starting', monitor, init, restarters }
  }

  /** Every process of the guest: what survived its monitor, too. */
  payloadPids(name: string): number[] {
    return readTreePids(`${this.#hierarchy}/lxc.payload.${name}`).filter((pid) => findLiveProcess(pid))
  }

  /** Hooks run in the monitor's group too: the monitor is the one whose parent is not there. */
  #findMonitor(name: string): ProcessStat | undefined {
    const stats = readGroupPids(`${this.#hierarchy}/lxc.monitor.${name}`)
      .map(findLiveProcess)
      .filter((stat) => stat !== undefined)
    return stats.find((stat) => !stats.some((other) => other.pid === stat.parentPid))
  }

  /**
   * A monitor leaves its group to remove it, and only then runs the hook, which may leave a restarter, and
   * ends. Only these are in the group it goes to, so their command lines can be believed. What came of one that
   * ends while it is looked at may not be listed yet: then all are looked at again.
   */
  #listPassing(): Passing[] {
    for (let looks = 1; ; looks++) {
      const pids = readTreePids(`${this.#hierarchy}/${this.paths.pivotGroup}`)
      const passing = pids.flatMap(readPassing)
      if (passing.length === pids.length || looks === mostLooks)
        return passing.filter(({ title }) => title.includes(this.paths.lxcPath))
    }
  }

  /** The monitor's child in another pid namespace: hooks are children in ours. */
  #findInit(monitor: ProcessStat): ProcessStat | undefined {
    for (const pid of readChildren(monitor.pid)) {
      const namespace = findNamespace(pid, 'pid')
      if (namespace !== undefined && namespace !== this.#ownPidNamespace) return findLiveProcess(pid)
    }
    return undefined
  }
}

/** A process that is just executing its program has no command line: it is asked again. */
function readPassing(pid: number): Passing[] {
  const deadline = performance.now() + executingMs
  for (;;) {
    const title = (readKernelFile(`/proc/${pid}/cmdline`) ?? '').split(/[\0 ]/)
    const stat = findLiveProcess(pid)
    if (!stat) return []
    if (title[0] !== '' || performance.now() > deadline) return [{ stat, title }]
  }
}

/**
 * Before it runs the guest's init, the child still is lxc. The name may be the guest's choice, the file not; a process
 * that is ending has none any more, and is no sign that it ran anything.
 */
function isExecuted(init: ProcessStat, monitor: ProcessStat): boolean {
  if (init.command !== 'lxc-start') return true
  const [its, lxc] = [findProgram(init.pid), findProgram(monitor.pid)]
  return its !== undefined && lxc !== undefined && its !== lxc
}

/** Field 22 counts from boot, as does the monotonic clock that hrtime reads. */
function isYoung({ startTime }: ProcessStat): boolean {
  const nowTicks = Number(process.hrtime.bigint() / 10_000_000n)
  return nowTicks - startTime < youngTicks
}
