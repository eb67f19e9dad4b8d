import { readGroupPids } from '../../host/process/cgroup.js'
import { findLiveProcess, listDirectory, type ProcessStat } from '../../host/process/proc.js'
import { groupPrefix } from './paths.js'

export interface QemuRuntime {
  readonly state: 'running' | 'starting' | 'stopped'
  /** QEMU's process, or the process of launch-machine.pl that is about to execute QEMU. */
  readonly process?: ProcessStat
}

/** Command name of a guest's TPM, which ends after its QEMU. */
const tpmCommand = 'swtpm'

/** Reads guests' state from their cgroups. Only the host's root can move processes into these cgroups. */
export class QemuRuntimeReader {
  /** @param hierarchy mount point of the cgroup hierarchy that is used to find guests' processes */
  constructor(private readonly hierarchy: string) {}

  /** Lists the names of all guests that have a cgroup, even if they are stopped. */
  listNames(prefix: string): string[] {
    const names = new RegExp(`^${groupPrefix.replaceAll('.', '\\.')}(${prefix}-\\d+)$`)
    return listDirectory(this.hierarchy).flatMap((entry) => names.exec(entry)?.[1] ?? [])
  }

  read(name: string): QemuRuntime {
    const found = this.pids(name).flatMap((pid) => findLiveProcess(pid) ?? [])
    const machine = found.find(({ command }) => command.startsWith('qemu-system'))
    if (machine) return { state: 'running', process: machine }
    const process = found.find(({ command }) => command !== tpmCommand)
    return process ? { state: 'starting', process } : { state: 'stopped' }
  }

  pids(name: string): number[] {
    return readGroupPids(this.#groupOf(name))
  }

  procsOf(name: string): string {
    return `${this.#groupOf(name)}/cgroup.procs`
  }

  #groupOf(name: string): string {
    return `${this.hierarchy}/${groupPrefix}${name}`
  }
}
