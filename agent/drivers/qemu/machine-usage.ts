import { dirname } from 'node:path'
import { findDiskNumbers, type GroupFacts } from '../common/group-facts.js'
import { UsageReader } from '../common/usage.js'
import { systemVolumeOf, type Machine, type UsageSample } from '../contract.js'
import { DiskUse } from './disk-use.js'
import { findLaunched } from './launched.js'
import type { Machines } from './machines.js'
import { readGuestMemory } from './memory.js'
import { groupPrefix, type QemuPaths } from './paths.js'
import { memoryMibOf } from './plan-command.js'

const mib = 1024 ** 2
/** A figure less is better than one that comes late. */
const monitorTimeoutMs = 500

/** What guests use: as the host counts it, but of memory and disk what their systems say, where they do. */
export class MachineUsage {
  readonly #counters: UsageReader
  readonly #diskUse = new DiskUse()
  readonly #disks = new Map<string, string | undefined>()

  constructor(
    private readonly paths: QemuPaths,
    private readonly machines: Machines,
    { cgroups }: GroupFacts,
  ) {
    this.#counters = new UsageReader(cgroups, groupPrefix)
  }

  async read(machine: Machine, name: string, pid: number): Promise<UsageSample> {
    const sample = this.#counters.read(name, machine.nic.device, pid, this.#diskOf(machine))
    const memoryBytes = await this.#readMemory(machine, name)
    const diskBytes = this.#readDisk(machine, name)
    return {
      ...sample,
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
      ...(diskBytes === undefined ? {} : { diskBytes }),
    }
  }

  /** At most a few seconds old, if the guest agent answers in time. */
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

  /** In rescue its disk is another's. */
  #readDisk(machine: Machine, name: string): number | undefined {
    if (systemVolumeOf(machine) !== machine.volume) return undefined
    return this.#diskUse.read(name, this.paths.runOf(name), machine.limits.diskBytes)
  }

  /** Of the pool, which stays where it is as long as the agent runs: all mounts are read for it. */
  #diskOf({ volume }: Machine): string | undefined {
    const folder = dirname(volume)
    if (!this.#disks.has(folder)) this.#disks.set(folder, findDiskNumbers(volume))
    return this.#disks.get(folder)
  }
}
