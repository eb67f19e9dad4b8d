import type { Duplex } from 'node:stream'
import type { BerthError } from '../../shared/errors.js'

/**
 * What a driver is told of a guest: numbers and names already decided and validated. A driver makes no
 * choices and keeps no state of its own beside what is on the host; every method is safe to repeat.
 */
export interface Machine {
  readonly uuid: string
  /** Unique on the host; the root of all host-side names. */
  readonly id: number
  readonly hostname: string
  /**
   * Absolute path of the guest's volume, a subvolume that agent/storage makes, exchanges and removes: for LXC the root
   * filesystem, for QEMU the directory of its disk, firmware variables and seed.
   */
  readonly volume: string
  readonly limits: MachineLimits
  readonly isolation: Isolation
  readonly nic: MachineNic
  /** Name servers for resolv.conf. */
  readonly resolvers: readonly string[]
}

/** Holds for every driver. */
export interface MachineLimits {
  readonly vcpuMilli: number
  readonly memoryBytes: number
  /** Of the host's swap, beside `memoryBytes`. */
  readonly swapBytes: number
  readonly diskBytes: number
  /** Bytes per second; 0 = unlimited. */
  readonly ioReadBytesPerSec: number
  readonly ioWriteBytesPerSec: number
  /** Processors of the host that it runs on, in order; absent: all. */
  readonly cpus?: readonly number[]
}

/** What keeps guests' processes apart on the host. QEMU needs one user id and few threads; LXC all of it. */
export interface Isolation {
  /** First of 65,536 host uids and gids that are this guest's alone. */
  readonly userIdBase: number
  /** Processes and threads. */
  readonly pidsMax: number
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
  /** Of the guest's disk; undefined: not known. */
  readonly readBytes?: number
  readonly writeBytes?: number
}

/** A resource whose limit can change while the guest runs. */
export type LiveResize = 'vcpu' | 'memory_up' | 'memory_down' | 'disk' | 'io'

/** What a driver can do on this host; shown as it is in the host's description. */
export interface DriverCapabilities {
  /** `text`: `console`; `vnc`: `display`. */
  readonly consoles: readonly ('text' | 'vnc')[]
  /** The others hold at the next start. */
  readonly liveResize: readonly LiveResize[]
  readonly freeze: boolean
  /** States in which `setPassword` works. */
  readonly setPassword: readonly ('running' | 'stopped')[]
  /** A snapshot of the volume of a guest that runs is worth restoring. */
  readonly snapshotRunning: boolean
}

export interface DriverDescription {
  readonly available: boolean
  /** `kvm` or `tcg` for QEMU, empty for LXC. */
  readonly acceleration: string
  /** Why it is not available. */
  readonly reason?: string
  readonly capabilities: DriverCapabilities
}

/**
 * How new limits hold. `at_next_start`: what the running guest cannot be given, or it does not run; `refused`: the
 * guest does not allow it now (`memory_in_use`), the others hold.
 */
export type ResizeResult =
  | {
      readonly outcome: 'applied' | 'at_next_start'
      /** Whether anything differed. */
      readonly changed: boolean
    }
  | { readonly outcome: 'refused'; readonly error: BerthError }

/** In characters. */
export interface ConsoleSize {
  readonly columns: number
  readonly rows: number
}

/** A guest's text console. Destroying the stream ends nothing in the guest. */
export interface GuestConsole {
  readonly stream: Duplex
  /** Tells the guest; does nothing where the console has no size. */
  resize(size: ConsoleSize): Promise<void>
}

export type StopCause = 'guest' | 'crash'

/**
 * A way to run guests, on volumes that agent/storage makes. LXC containers and QEMU virtual machines both fit:
 *
 * | | LXC | QEMU |
 * |---|---|---|
 * | volume | the root filesystem, with a quota | raw disk, firmware variables, seed |
 * | initialize | files in its root, by openat2 | grows the disk, NoCloud seed |
 * | configure | lxc config file | argument list |
 * | start | lxc-start | qemu process, QMP greeting |
 * | stop | SIGPWR/SIGRTMIN+3 to init | QMP system_powerdown |
 * | observe | groups and processes | QMP sockets |
 * | resize | cgroup files | virtio-mem, device_add, block_resize, throttle |
 * | freeze | cgroup freezer | guest-fsfreeze, else stop |
 * | setPassword | chpasswd inside; stopped: its shadow file | guest-set-user-password |
 */
export interface Driver {
  readonly kind: 'lxc' | 'kvm'
  /** How long a guest gets to shut down, as configured. */
  readonly stopTimeoutMs: number

  describe(): Promise<DriverDescription>

  /** Bytes that the guest's volume is bounded to; 0: its disk has a size of its own. */
  volumeLimitBytes(machine: Machine): number
  /**
   * Makes a fresh clone of an image the guest's own: size, host name and login.
   * @param volume the guest's, or one that is about to take its place
   * @throws {BerthError} `guest_running` where it is the guest's and runs
   */
  initialize(machine: Machine, login: Login, volume: string): Promise<void>
  /** Writes what a start needs; replaces what an earlier call wrote. */
  configure(machine: Machine): Promise<void>
  /** Returns once the first process runs. Already running: does nothing. */
  start(machine: Machine, signal: AbortSignal): Promise<void>
  /** Graceful up to `timeoutMs`, then kill. Not running: does nothing. */
  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void>
  kill(machine: Machine): Promise<void>
  /** Removes configuration and run-time traces; the guest must not run. */
  delete(machine: Machine): Promise<void>

  /** Every guest of this driver that has any process on the host. Reads only. */
  observe(): Promise<Observed[]>
  /** By guest that runs: the processors of the host that it has. */
  readProcessors(): Promise<ReadonlyMap<string, readonly number[]>>
  /** Uuids of all guests with a configuration on the host: for finding strays. */
  listTraces(): Promise<string[]>
  /**
   * Removes the configuration of a guest of which nothing else is known.
   * @returns false: it runs, or something does that may be it, and nothing of it may be removed
   */
  removeTraces(uuid: string): Promise<boolean>
  /** Calls back when a guest ends: by itself or killed from outside. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void

  usage(machine: Machine, pid: number): Promise<UsageSample>
  /** Limits but the volume's, of a guest that runs and for its next start. Costs little where they hold already. */
  resize(machine: Machine): Promise<ResizeResult>
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

  /**
   * Sets root's password, running or stopped where the capabilities say so.
   * @throws {BerthError} `unsupported`, `guest_refused` with the guest's reason
   */
  setPassword(machine: Machine, password: string): Promise<void>
  /**
   * Nothing in the guest runs, or writes, until `thaw`. Not running: does nothing.
   * @returns whether the guest is frozen; false: not within `timeoutMs`, and it goes on
   */
  freeze(machine: Machine, timeoutMs: number): Promise<boolean>
  /** Not frozen, or not running: does nothing. */
  thaw(machine: Machine): Promise<void>

  /** @throws {BerthError} `guest_not_running`, `unsupported` */
  console(machine: Machine, size: ConsoleSize): Promise<GuestConsole>
  /** The guest's screen as a stream of RFB without a password. @throws {BerthError} as `console` */
  display(machine: Machine): Promise<Duplex>
}
