import { join } from 'node:path'
import type { Logger } from 'pino'
import { allEnded } from '../../shared/all-ended.js'
import type { AgentConfig } from '../config.js'
import type { Driver, DriverDescription } from './contract.js'
import { MemoryKills } from '../host/process/memory-kills.js'
import { findQemuHindrance } from '../host/guest/qemu.js'
import { createLxcDriver, type LxcDriver, type PoolPlace } from './lxc/driver.js'
import type { Acceleration } from './qemu/acceleration.js'
import { createQemuDriver, type QemuDriver, type QemuDriverOptions } from './qemu/driver.js'
export { ensureHostLimits } from './lxc/host-limits.js'
export { planSysctls } from './lxc/plan-sysctls.js'

export type DriverKind = Driver['kind']

/** Settings of a driver's configuration section that apply to its guests. */
export interface MachineSettings {
  /** First host uid and gid for guests. Each guest gets 65,536 ids. */
  readonly userIdBase: number
  readonly pidsMax: number
  /** Host swap that a guest is allowed to use, as a fraction of its memory. */
  readonly swapRatio: number
}

/** The part of the host's description that the drivers provide. */
export interface DriversDescription {
  readonly drivers: ReadonlyMap<DriverKind, DriverDescription>
  readonly cgroupVersion: 1 | 2
  /** True if containers see their own memory, processors and load. */
  readonly lxcfs: boolean
}

/** The drivers that this host is configured for. */
export class Drivers {
  readonly #lxc: LxcDriver
  readonly #kvm: QemuDriver | undefined
  readonly #memoryKills: MemoryKills

  private constructor(
    private readonly config: AgentConfig,
    {
      lxc,
      kvm,
      memoryKills,
    }: {
      readonly lxc: LxcDriver
      readonly kvm: QemuDriver | undefined
      readonly memoryKills: MemoryKills
    },
  ) {
    this.#memoryKills = memoryKills
    this.#lxc = lxc
    this.#kvm = kvm
  }

  /** Prepares the drivers and starts to watch for guests that end. */
  static async open(config: AgentConfig, log: Logger): Promise<Drivers> {
    const memoryKills = new MemoryKills()
    if (!memoryKills.isAvailable)
      log.warn(
        '/dev/kmsg cannot be read: the agent cannot notice that the kernel killed a guest because memory ran out',
      )
    const kvm = isUsable(config) ? await openKvm(config, log, { memoryKills }) : undefined
    return new Drivers(config, { lxc: await openLxc(config, log, memoryKills), kvm, memoryKills })
  }

  /**
   * Shuts down every running guest with this agent's name prefix, even those of disabled drivers. Removes nothing.
   * @throws the first error, after all guests were handled
   */
  static async stopAll(config: AgentConfig, log: Logger): Promise<void> {
    await withEach(config, log, (driver) => driver.stopAll())
  }

  /** Kills every guest, even one without a configuration file. Removes what drivers have created, except volumes. */
  static async removeAll(config: AgentConfig, log: Logger): Promise<void> {
    await withEach(config, log, (driver) => driver.removeAll())
  }

  /** The configured drivers, including those that are not available. */
  get enabled(): Readonly<Record<DriverKind, Driver | undefined>> {
    return { lxc: this.config.lxc.enabled ? this.#lxc : undefined, kvm: this.#kvm }
  }

  get settings(): MachineSettings {
    const { idmap_base: userIdBase, pids_max: pidsMax } = this.config.lxc
    return { userIdBase, pidsMax, swapRatio: this.config.lxc.swap_ratio }
  }

  /** @returns warnings for the operator about host settings that weaken the separation of guests */
  ensureSeparation(place: PoolPlace): string[] {
    return this.#lxc.ensureSeparation(place)
  }

  /** @returns warnings for the operator about guests that an earlier agent started with weaker limits */
  describeOutdated(): string[] {
    return this.#lxc.describeOutdated()
  }

  async describe(): Promise<DriversDescription> {
    const drivers = new Map<DriverKind, DriverDescription>()
    for (const driver of Object.values(this.enabled)) if (driver) drivers.set(driver.kind, await driver.describe())
    if (this.config.kvm.enabled && !this.#kvm) drivers.set('kvm', describeMissing())
    return { drivers, cgroupVersion: this.#lxc.cgroupVersion, lxcfs: this.#lxc.hasLxcfs() }
  }

  /** Ends the watch for guests that end. The guests keep running. */
  close(): void {
    this.#lxc.close()
    this.#kvm?.close()
    this.#memoryKills.close()
  }
}

/**
 * Opens both drivers and runs `work` on each. A failure of one driver does not affect the other. The acceleration is
 * not checked, because no guest is started.
 */
async function withEach(
  config: AgentConfig,
  log: Logger,
  work: (driver: LxcDriver | QemuDriver) => Promise<void>,
): Promise<void> {
  const findAcceleration = (): Promise<Acceleration> =>
    Promise.resolve({ kind: 'tcg', reason: 'not checked, because no guest is started' })
  const opening = [openLxc(config, log), openKvm(config, log, { findAcceleration })]
  await allEnded(
    opening.map(async (opened) => {
      const driver = await opened
      await work(driver).finally(() => driver.close())
    }),
  )
}

function openLxc(config: AgentConfig, log: Logger, memoryKills?: MemoryKills): Promise<LxcDriver> {
  return createLxcDriver({
    stateDir: config.state_dir,
    runDir: config.run_dir,
    namePrefix: config.network.interface_prefix,
    allow: config.lxc.allow,
    stopTimeoutMs: config.lxc.stop_timeout_seconds * 1000,
    ...(memoryKills && { memoryKills }),
    log,
  })
}

/** True if virtual machines are enabled and the host has the programs that they need. */
function isUsable({ kvm }: AgentConfig): boolean {
  return kvm.enabled && findQemuHindrance() === undefined
}

function openKvm(
  { kvm, ...config }: AgentConfig,
  log: Logger,
  options: Pick<QemuDriverOptions, 'findAcceleration' | 'memoryKills'> = {},
): Promise<QemuDriver> {
  return createQemuDriver({
    stateDir: config.state_dir,
    runDir: config.run_dir,
    namePrefix: config.network.interface_prefix,
    stopTimeoutMs: kvm.stop_timeout_seconds * 1000,
    keyFile: join(config.state_dir, 'secret.key'),
    ...(kvm.virtio_iso === '' ? {} : { driversCd: kvm.virtio_iso }),
    ...options,
    log,
  })
}

function describeMissing(): DriverDescription {
  const none = { consoles: [], liveResize: [], freeze: false, setPassword: [], snapshotRunning: false }
  return { available: false, acceleration: '', reason: findQemuHindrance() ?? '', capabilities: none }
}
