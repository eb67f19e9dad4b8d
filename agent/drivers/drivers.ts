import type { Logger } from 'pino'
import type { AgentConfig } from '../config.js'
import type { Driver, DriverDescription } from './contract.js'
import { createLxcDriver, type LxcDriver, type PoolPlace } from './lxc/driver.js'
export { ensureHostLimits } from './lxc/host-limits.js'
export { planSysctls } from './lxc/plan-sysctls.js'

export type DriverKind = Driver['kind']

/** A driver's own section of the configuration, as far as it decides what its machines are. */
export interface MachineSettings {
  /** First host uid and gid handed to guests, 65,536 each, and how many guests get some. */
  readonly userIdBase: number
  readonly userIdSlots: number
  readonly pidsMax: number
  /** Swap of the host that a guest may use, as a share of its memory. */
  readonly swapRatio: number
}

/** What the host's description says of its drivers. */
export interface DriversDescription {
  readonly drivers: ReadonlyMap<DriverKind, DriverDescription>
  readonly cgroupVersion: 1 | 2
  /** Guests that share the host's kernel see their own memory, processors and load. */
  readonly lxcfs: boolean
}

/** The ways to run guests that this host is configured for. */
export class Drivers {
  readonly #lxc: LxcDriver

  private constructor(
    private readonly config: AgentConfig,
    lxc: LxcDriver,
  ) {
    this.#lxc = lxc
  }

  /** Begins to watch for guests that end. */
  static async open(config: AgentConfig, log: Logger): Promise<Drivers> {
    const lxc = await createLxcDriver({
      stateDir: config.state_dir,
      runDir: config.run_dir,
      namePrefix: config.network.interface_prefix,
      allow: config.lxc.allow,
      stopTimeoutMs: config.lxc.stop_timeout_seconds * 1000,
      log,
    })
    return new Drivers(config, lxc)
  }

  /** Those that may run guests here, available or not. */
  get enabled(): Readonly<Record<DriverKind, Driver | undefined>> {
    return { lxc: this.config.lxc.enabled ? this.#lxc : undefined, kvm: undefined }
  }

  get settings(): MachineSettings {
    const { idmap_base: userIdBase, idmap_slots: userIdSlots, pids_max: pidsMax } = this.config.lxc
    return { userIdBase, userIdSlots, pidsMax, swapRatio: this.config.lxc.swap_ratio }
  }

  /** @returns what of the host keeps guests from being apart as they could be, for the operator */
  ensureSeparation(place: PoolPlace): string[] {
    return this.#lxc.ensureSeparation(place)
  }

  /** Guests of an earlier agent that have less bounds than this one gives, for the operator. */
  describeOutdated(): string[] {
    return this.#lxc.describeOutdated()
  }

  async describe(): Promise<DriversDescription> {
    const drivers = new Map<DriverKind, DriverDescription>()
    for (const driver of Object.values(this.enabled))
      if (driver) drivers.set(driver.kind, await driver.describe())
    return { drivers, cgroupVersion: this.#lxc.cgroupVersion, lxcfs: this.#lxc.hasLxcfs() }
  }

  /** Ends watching; guests are untouched. */
  close(): void {
    this.#lxc.close()
  }

  /** Kills every guest and removes all that drivers ever made; volumes stay. */
  async removeAll(): Promise<void> {
    await this.#lxc.removeAll()
  }
}
