import type { Duplex } from 'node:stream'

/**
 * What a driver is told of a guest: numbers and names already decided and validated. A driver makes no
 * choices and keeps no state of its own beside what is on the host; every method is safe to repeat.
 */
export interface Machine {
  readonly uuid: string
  /** Unique on the host; the root of all host-side names. */
  readonly id: number
  readonly hostname: string
  readonly templateId: string
  readonly limits: MachineLimits
  /** First host uid and gid of the guest's own 65,536 (LXC). */
  readonly idmapBase: number
  readonly nic: MachineNic
  /** Name servers for resolv.conf. */
  readonly resolvers: readonly string[]
}

export interface MachineLimits {
  readonly vcpuMilli: number
  readonly memoryBytes: number
  readonly swapBytes: number
  readonly diskBytes: number
  readonly pidsMax: number
  /** Bytes per second; 0 = unlimited. */
  readonly ioReadBytesPerSec: number
  readonly ioWriteBytesPerSec: number
}

export interface MachineNic {
  /** Host-side interface: veth of a container, tap of a virtual machine. */
  readonly device: string
  readonly bridge: string
  readonly mac: string
  readonly ipv4: string
  readonly prefixLength: number
  readonly gateway: string
  /** Each alone on its link (/128): everything is reached by way of `gateway6`. */
  readonly ipv6Addresses: readonly string[]
  readonly gateway6: string
}

/** What a first boot sets inside the guest. */
export interface Login {
  readonly password?: string
  readonly publicKey?: string
}

export type ObservedState = 'running' | 'starting' | 'stopping' | 'stopped'

/** What is really on the host, read without trusting the journal. */
export interface Observed {
  readonly uuid: string
  readonly state: ObservedState
  /** Host pid of the guest's first process (LXC) or of QEMU; undefined when not running. */
  readonly pid?: number
  /** Field 22 of /proc/pid/stat: tells a reused pid apart. */
  readonly startTime?: number
}

/** Counters since the guest's start, as the guest sees them. */
export interface UsageSample {
  readonly cpuUsec: number
  readonly memoryBytes: number
  readonly rxBytes: number
  readonly txBytes: number
  /** Runnable and uninterruptible tasks now, for the load averages. */
  readonly runnable: number
}

export interface DriverDescription {
  readonly available: boolean
  /** `kvm` or `tcg` for QEMU, empty for LXC. */
  readonly acceleration: string
  /** Why it is not available. */
  readonly reason?: string
}

export type StopCause = 'guest' | 'crash'

/**
 * A way to run guests. LXC containers and QEMU virtual machines both fit:
 *
 * | | LXC | QEMU |
 * |---|---|---|
 * | createDisk | btrfs snapshot + qgroup | qcow2 with backing file, resized |
 * | configure | lxc config file | argument list |
 * | start | lxc-start | qemu process, QMP greeting |
 * | initialize | files in its root, by openat2 | NoCloud seed |
 * | stop | SIGPWR/SIGRTMIN+3 to init | QMP system_powerdown |
 * | observe | command sockets | QMP sockets |
 */
export interface Driver {
  readonly kind: 'lxc' | 'kvm'

  describe(): Promise<DriverDescription>

  /** Clones the image and bounds its size. */
  createDisk(machine: Machine): Promise<void>
  /** Writes what a start needs; replaces what an earlier call wrote. */
  configure(machine: Machine): Promise<void>
  /** Returns once the first process runs. Already running: does nothing. */
  start(machine: Machine, signal: AbortSignal): Promise<void>
  /** Hostname and login, on the disk of a guest that does not run yet. */
  initialize(machine: Machine, login: Login): Promise<void>
  /** Graceful up to `timeoutMs`, then kill. Not running: does nothing. */
  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void>
  kill(machine: Machine): Promise<void>
  /** Removes disk, configuration and run-time traces; the guest must not run. */
  delete(machine: Machine): Promise<void>

  /** Every guest of this driver that has any process on the host. Reads only. */
  observe(): Promise<Observed[]>
  /** Uuids of all guests with a disk or configuration on the host: for finding strays. */
  listTraces(): Promise<string[]>
  /**
   * Removes disk and configuration of a guest of which nothing else is known.
   * @returns false: it runs, or something does that may be it, and was left alone
   */
  removeTraces(uuid: string): Promise<boolean>
  /** Calls back when a guest ends: by itself or killed from outside. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void

  usage(machine: Machine, pid: number): Promise<UsageSample>
  /** Bytes referenced by each guest's disk, by uuid. One call for all: it may spawn. */
  diskUsage(): Promise<Map<string, number>>
  /**
   * Limits, of a guest that runs and for its next start. Costs little where they hold already.
   * @returns whether anything differed
   */
  resize(machine: Machine): Promise<boolean>
  /**
   * Gives a running guest its IPv6 addresses, for a reboot of its own too, and takes `gone` away; what the guest
   * set by itself stays. Not running: does nothing, for `configure` says the same for the next start.
   * @returns whether anything differed
   */
  assignAddresses(machine: Machine, gone: readonly string[]): Promise<boolean>
  /**
   * Makes the interface of a running guest anew where it is gone from the host. Not running: does nothing.
   * @returns whether it was gone
   */
  connect(machine: Machine): Promise<boolean>
  /** The guest's text console. */
  console(machine: Machine): Promise<Duplex>
}
