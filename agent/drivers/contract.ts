import type { BerthError } from '../../shared/errors.js'
import type { GuestDevice } from '../../shared/guest-devices.js'
import type { GuestTerminal } from '../host/guest/guest-terminal.js'
import type { TerminalCommand } from '../host/process/pty.js'

/**
 * What a driver is told of a guest: numbers and names, decided and validated. A driver makes no choices and keeps no
 * state besides what is on the host; every method is safe to repeat.
 */
export interface Machine {
  readonly uuid: string
  /** Unique on the host; all host-side names are derived from it. */
  readonly id: number
  readonly hostname: string
  /** Fully qualified name, beginning with `hostname` and a dot; absent: the guest has no domain. */
  readonly fqdn?: string
  /**
   * Absolute path of the guest's volume, a subvolume that agent/storage makes, exchanges and removes. LXC: the root
   * file system; QEMU: a directory with disk, firmware variables and seed.
   */
  readonly volume: string
  /** Absent: its disk. */
  readonly boot?: MachineBoot
  readonly limits: MachineLimits
  readonly isolation: Isolation
  readonly nic: MachineNic
  /** Name servers for resolv.conf. */
  readonly resolvers: readonly string[]
  /** Devices of the host that a container may use; absent: none. */
  readonly devices?: readonly GuestDevice[]
}

/** Absolute paths. */
export type MachineBoot =
  | { readonly mode: 'disk' }
  /** A CD first, the guest's disk after it; virtual machines only. */
  | { readonly mode: 'cdrom'; readonly iso: string }
  /** A volume of its own with a system, which has the guest's: a container at /mnt, a virtual machine as second disk. */
  | { readonly mode: 'rescue'; readonly volume: string }

/** The volume of the system that the guest boots. */
export function systemVolumeOf({ boot, volume }: Pick<Machine, 'boot' | 'volume'>): string {
  return boot?.mode === 'rescue' ? boot.volume : volume
}

/** Limits that every driver enforces. */
export interface MachineLimits {
  readonly vcpuMilli: number
  readonly memoryBytes: number
  /** Swap of the host in addition to `memoryBytes`. */
  readonly swapBytes: number
  readonly diskBytes: number
  /** Bytes per second; 0 = unlimited. */
  readonly ioReadBytesPerSec: number
  readonly ioWriteBytesPerSec: number
  /** Requests per second; absent or 0: unlimited. */
  readonly ioReadsPerSec?: number
  readonly ioWritesPerSec?: number
  /** Processors of the host that it runs on, in order; absent: all. */
  readonly cpus?: readonly number[]
}

/** Bounds that keep guests apart on the host. QEMU needs one user id and few threads; LXC all of it. */
export interface Isolation {
  /** First of 65,536 host uids and gids that are this guest's alone. */
  readonly userIdBase: number
  /** Limit of processes and threads. */
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
  /** Each is a /128 and reaches everything through `gateway6`. */
  readonly ipv6Addresses: readonly string[]
  readonly gateway6: string
}

/** The copy of another guest's volume. */
export interface VolumeCopy {
  /** Path of the new volume, which is about to replace the guest's. */
  readonly volume: string
  /**
   * Name servers that the host assigned to the original. Other name servers were set by its owner and stay. Absent: not
   * known.
   */
  readonly resolvers?: readonly string[]
}

/** Login of root, set at first boot. */
export interface Login {
  readonly password?: string
  /** Of the password, by crypt(5); absent: not made yet. */
  readonly passwordHash?: string
  readonly publicKey?: string
  /** Lines of `authorized_keys` on the guest's disk, used instead of `publicKey`. */
  readonly authorizedKeys?: readonly string[]
  /** The customer's own for cloud-init; drivers without it are given none. */
  readonly userData?: string
}

/** Root's current login, as stored on the guest's disk. */
export interface CurrentLogin {
  /** Root's field in the shadow file; `*` if no password works. */
  readonly passwordHash: string
  readonly authorizedKeys: readonly string[]
}

export type ObservedState = 'running' | 'starting' | 'stopping' | 'stopped'

/** A guest's state as found on the host, without looking at the journal. */
export interface ObservedGuest {
  readonly uuid: string
  readonly state: ObservedState
  /** Host pid of the guest's first process (LXC) or of QEMU; undefined when not running. */
  readonly pid?: number
  /** Field 22 of /proc/pid/stat; it differs for a reused pid. */
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
  /** Processes of the guest that the kernel has killed since its start because memory ran out. */
  readonly memoryKills?: number
  /** What its file systems hold, as the guest says; undefined: not known, the volume's own use is taken. */
  readonly diskBytes?: number
}

/** A limit that can change while the guest runs. */
export type LiveResize = 'vcpu' | 'memory_up' | 'memory_down' | 'disk' | 'io'

/** What a driver can do on this host; part of the host's description. */
export interface DriverCapabilities {
  /** `text`: the modes `shell` and `serial` of `findConsole`; `vnc`: that one. */
  readonly consoles: readonly ('text' | 'vnc')[]
  /** Other limits change at the next start. */
  readonly liveResize: readonly LiveResize[]
  readonly freeze: boolean
  /** States in which `setPassword` works. */
  readonly setPassword: readonly ('running' | 'stopped')[]
  /** Whether a snapshot of a running guest's volume can be restored. */
  readonly snapshotRunning: boolean
}

export interface DriverDescription {
  readonly available: boolean
  /** `kvm` or `tcg` for QEMU, empty for LXC. */
  readonly acceleration: string
  /** Why it is not available. */
  readonly reason?: string
  /** Why there is no better acceleration. */
  readonly accelerationReason?: string
  readonly capabilities: DriverCapabilities
}

/**
 * Outcome of new limits. `at_next_start`: the running guest cannot get them, or it does not run. `refused`: the guest
 * prevents one now (`memory_in_use`); the other limits are in force.
 */
export type ResizeResult =
  | {
      readonly outcome: 'applied' | 'at_next_start'
      /** Whether any limit differed. */
      readonly changed: boolean
    }
  | { readonly outcome: 'refused'; readonly error: BerthError }

/** When a new password is in force. */
export type PasswordResult = 'applied' | 'at_next_start'
/** `unchanged`: the guest has them, or does not run. `at_next_start`: it cannot be told; also at its own reboot. */
export type AssignResult = 'unchanged' | 'applied' | 'at_next_start'
/** `shell`: root's shell, or the nearest to it; `serial`: what shows the boot, with its login prompt; `vnc`: the screen. */
export type ConsoleMode = 'shell' | 'serial' | 'vnc'

/**
 * Where a console is, for a process that outlives the agent: a program, to be run on a terminal of the host or of the guest,
 * which closes what it inherits beyond; or a Unix socket. One of `vnc` speaks RFB without a password and takes any number
 * of connections; one of the other modes is connected to once, for all its users.
 */
export type ConsolePlace =
  | ({ readonly kind: 'program' } & TerminalCommand)
  | ({ readonly kind: 'guest-terminal' } & GuestTerminal)
  | { readonly kind: 'socket'; readonly path: string }

/** How a guest ended: shut down from inside, killed, or killed by the kernel because memory ran out. */
export type StopCause = 'guest' | 'crash' | 'memory'
/** What a guest's system does that goes on running: reboots by itself, or reports that it is broken. */
export type GuestEvent = 'rebooted' | 'panicked'

/**
 * A way to run guests on volumes that agent/storage makes. LXC containers and QEMU virtual machines both fit:
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
  /** How long a guest may take to shut down, as configured. */
  readonly stopTimeoutMs: number

  describe(): Promise<DriverDescription>

  /** Quota of the guest's volume in bytes; 0: none, since its disk file has a fixed size. */
  volumeLimitBytes(machine: Machine): number
  /** What `initialize` takes time for and needs no volume: it can be done beside the making of one. */
  prepareLogin(login: Login): Promise<Login>
  /**
   * Gives a fresh clone of an image the guest's size, host name and login.
   * @param volume the guest's volume, or one that is about to replace it
   * @throws {BerthError} `guest_running` when the volume belongs to a running guest
   */
  initialize(machine: Machine, login: Login, volume: string): Promise<void>
  /**
   * Gives the copy of another guest's volume this guest's host name and login and a new identity, so that both guests
   * can run at the same time.
   */
  adopt(machine: Machine, login: Login, copy: VolumeCopy): Promise<void>
  /** Readies an empty volume for the files of a backup. */
  prepareEmpty(volume: string): Promise<void>
  /** Readies what a backup has put into a volume: it takes no more room than it needs. */
  trimFetched(volume: string): Promise<void>
  /** Writes what a start needs; replaces what an earlier call wrote. */
  configure(machine: Machine): Promise<void>
  /**
   * Returns once the first process runs. Does nothing for a running guest.
   * @param connected called once the guest's interface is there, maybe before the guest runs; waited for, and what it
   * throws is thrown, once the guest runs
   */
  start(machine: Machine, signal: AbortSignal, connected?: () => Promise<void>): Promise<void>
  /** Asks the guest to shut down, and kills it after `timeoutMs`. Does nothing for a stopped guest. */
  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void>
  kill(machine: Machine): Promise<void>
  /** Removes configuration and run-time files; the guest must not run. */
  delete(machine: Machine): Promise<void>

  /** Lists every guest of this driver with a process on the host. Reads only. */
  observe(): Promise<ObservedGuest[]>
  /** By guest that runs: the processors of the host that it has. */
  readProcessors(): Promise<ReadonlyMap<string, readonly number[]>>
  /** Uuids of all guests with a configuration on the host: for finding strays. */
  listTraces(): Promise<string[]>
  /**
   * Removes the configuration of a guest that the journal does not know.
   * @returns false when the guest runs, or a process may belong to it: nothing was removed
   */
  removeTraces(uuid: string): Promise<boolean>
  /** Calls back when a guest ended by itself or was killed from outside. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void

  /** Absent: its guests' systems tell nothing of the kind. A guest may cause events as often as it likes. */
  onEvent?(listener: (uuid: string, event: GuestEvent) => void): void

  usage(machine: Machine, pid: number): Promise<UsageSample>
  /**
   * `UsageSample.diskBytes` of a running guest, at most a few seconds old. Absent: the samples of this driver have no
   * such figure. Returns within a fraction of a second, whatever the guest does.
   */
  readDiskUse?(machine: Machine): Promise<number | undefined>
  /** Sets all limits but the volume's, now and for the next start. Cheap when they are in force already. */
  resize(machine: Machine): Promise<ResizeResult>
  /**
   * Gives a running guest its IPv6 addresses, also for when it reboots itself, and takes `gone` away; addresses that
   * the guest set itself stay. Does nothing for a stopped guest: `configure` sets them for its next start.
   */
  assignAddresses(machine: Machine, gone: readonly string[]): Promise<AssignResult>
  /**
   * Recreates a running guest's interface when the host lost it. Does nothing for a stopped guest.
   * @returns whether it was lost
   */
  connect(machine: Machine): Promise<boolean>

  /**
   * Sets root's password, in the states that the capabilities list.
   * @throws {BerthError} `unsupported`, `guest_refused` with the guest's reason
   */
  setPassword(machine: Machine, password: string): Promise<PasswordResult>
  /**
  /**
   * Sets root's password in the files of a guest whose own program failed. Absent: not supported by the driver.
   * @throws {BerthError} `guest_refused` with the guest's reason, also while the guest is changing its own accounts
   */
  overridePassword?(machine: Machine, password: string): Promise<PasswordResult>
  /**
   * Reads root's login from the guest's disk, where its owner may have changed it.
   * @returns undefined: the login cannot be read; use the one that Berth set last
   */
  readLogin(machine: Machine): Promise<CurrentLogin | undefined>
  /**
   * Suspends all the guest's processes and writes until `thaw`. Does nothing for a stopped guest.
   * @returns whether the guest is frozen; false: it could not be within `timeoutMs`, and runs on once it is thawed
   */
  freeze(machine: Machine, timeoutMs: number): Promise<boolean>
  /** Does nothing unless the guest is frozen, or may be. @throws when it may be still: a driver tries again where time helps */
  thaw(machine: Machine): Promise<void>

  /** @throws {BerthError} `guest_not_running`, `unsupported` for a mode that its guests do not have */
  findConsole(machine: Machine, mode: ConsoleMode): Promise<ConsolePlace>
  /** The guest's screen as a PNG. @throws {BerthError} `guest_not_running`, `unsupported` */
  screenshot(machine: Machine): Promise<Buffer>
}
