import type { GroupFacts } from '../common/group-facts.js'
import { PoolDisks } from '../common/pool-disks.js'
import { UsageReader } from '../common/usage.js'
import type { UsageSample } from '../contract.js'
import { systemVolumeOf, type Machine } from '../machine.js'
import { DiskUse } from './disk-use.js'
import { findLaunched } from './launched.js'
import type { Machines } from './machines.js'
import { readGuestMemory } from './memory.js'
import { groupPrefix, type QemuPaths } from './paths.js'
import { memoryMibOf } from './plan-command.js'

const mib = 1024 ** 2
/** Timeout in ms of the monitor. A sample without the memory use is better than a late sample. */
const monitorTimeoutMs = 500

/** Reads the usage that the host counts for guests, and the memory and disk use that guests report. */
export class MachineUsage {
  readonly #counters: UsageReader
  readonly #diskUse = new DiskUse()
  readonly #disks = new PoolDisks()

  constructor(
    private readonly paths: QemuPaths,
    private readonly machines: Machines,
    { cgroups }: GroupFacts,
  ) {
    this.#counters = new UsageReader(cgroups, groupPrefix)
  }

  async read(machine: Machine, name: string, pid: number): Promise<UsageSample> {
    const sample = this.#counters.read(name, machine.nic.device, pid, this.#disks.find(machine.volume))
    const memoryBytes = await this.#readMemory(machine, name)
    const diskBytes = this.#readDisk(machine, name)
    return {
      ...sample,
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
      ...(diskBytes === undefined ? {} : { diskBytes }),
    }
  }

  /** Returns the guest's disk usage, at most a few seconds old if the guest agent answers in time. */
  async readDiskUse(machine: Machine, name: string): Promise<number | undefined> {
    if (systemVolumeOf(machine) !== machine.volume) return undefined
    return this.#diskUse.refresh(name, this.paths.runOf(name), machine.limits.diskBytes)
  }

  forget(name: string): void {
    this.#counters.forget(name)
    this.#diskUse.forget(name)
  }

  async #readMemory({ limits }: Machine, name: string): Promise<number | undefined> {
    const monitor = await this.machines.monitor(name, monitorTimeoutMs).catch(() => undefined)
    const bootedMib = findLaunched(this.paths.runOf(name).launched)?.memoryMib ?? memoryMibOf(limits)
    return monitor && readGuestMemory(monitor, bootedMib * mib)
  }

  /** Returns the use of the guest's disk; undefined in rescue mode, when the guest runs from another disk. */
  #readDisk(machine: Machine, name: string): number | undefined {
    if (systemVolumeOf(machine) !== machine.volume) return undefined
    return this.#diskUse.read(name, this.paths.runOf(name), machine.limits.diskBytes)
  }
}
