import type { Socket } from 'node:net'
import type { BerthError } from '../../shared/errors.js'
import type { GuestTerminal } from '../host/guest/guest-terminal.js'
import type { TerminalCommand } from '../host/process/pty.js'
import type { CurrentLogin, Login, Machine, VolumeCopy } from './machine.js'

export type ObservedState = 'running' | 'starting' | 'stopping' | 'stopped'

/** A guest's state as found on the host. The journal is not used. */
export interface ObservedGuest {
  readonly uuid: string
  readonly state: ObservedState
  /** Host pid of the guest's first process (LXC) or of QEMU; undefined if the guest is not running. */
  readonly pid?: number
  /** Start time of the process (field 22 of /proc/pid/stat), which differs if the pid is reused. */
  readonly startTime?: number
}

/** Counters since the guest's start, as the guest sees them. */
export interface UsageSample {
  readonly cpuUsec: number
  readonly memoryBytes: number
  readonly rxBytes: number
  readonly txBytes: number
  /** Current number of runnable and uninterruptible tasks, for the load averages. */
  readonly runnable: number
  /** Bytes read from and written to the guest's disk; undefined if they are not known. */
  readonly readBytes?: number
  readonly writeBytes?: number
  /** Number of processes that the kernel has killed since the guest's start because the guest's memory ran out. */
  readonly memoryKills?: number
  /** Bytes in use on the guest's file systems, as the guest reports. Undefined: the caller uses the volume's usage. */
  readonly diskBytes?: number
}

/** A limit that can change while the guest runs. */
export type LiveResize = 'vcpu' | 'memory_up' | 'memory_down' | 'disk' | 'io'

/** Abilities of a driver on this host, which are part of the host's description. */
export interface DriverCapabilities {
  /** Consoles that `findConsole` supports. `text`: the modes `shell` and `serial`. `vnc`: the mode `vnc`. */
  readonly consoles: readonly ('text' | 'vnc')[]
  /** Limits that can change at run time. Other limits change at the next start. */
  readonly liveResize: readonly LiveResize[]
  readonly freeze: boolean
  /** States in which `setPassword` works. */
  readonly setPassword: readonly ('running' | 'stopped')[]
  /** True if a snapshot that was taken while the guest was running can be restored. */
  readonly snapshotRunning: boolean
}

export interface DriverDescription {
  readonly available: boolean
  /** `kvm` or `tcg` for QEMU; empty for LXC. */
  readonly acceleration: string
  readonly reason?: string
  /** Reason why no better acceleration is available. */
  readonly accelerationReason?: string
  readonly capabilities: DriverCapabilities
}

/**
 * Result of setting limits. `at_next_start`: the guest is stopped, or some limits cannot change while it runs.
 * `refused`: one limit is below the guest's current use (`memory_in_use`), and all other limits are in force.
 */
export type ResizeResult =
  | {
      readonly outcome: 'applied' | 'at_next_start'
      /** True if any limit differed from the requested one. */
      readonly changed: boolean
    }
  | { readonly outcome: 'refused'; readonly error: BerthError }

/** `applied`: the new password works now. `at_next_start`: it works from the next start on. */
export type PasswordResult = 'applied' | 'at_next_start'
/**
 * `unchanged`: the guest already has the addresses, or is stopped. `at_next_start`: the guest could not be reached. It
 * gets the addresses at its next boot, even if it reboots by itself.
 */
export type AssignResult = 'unchanged' | 'applied' | 'at_next_start'
/**
 * `shell` is a shell of root, or the closest equivalent. `serial` shows the boot messages and a login prompt. `vnc`
 * shows the screen. `run` is a program of root without a terminal.
 */
export type ConsoleMode = 'shell' | 'serial' | 'vnc' | 'run'

/**
 * The way to reach a console, for a process that outlives the agent. It is a program to run on a terminal of the host
 * or the guest, a program without a terminal, or a Unix socket. The program must close inherited file descriptors. A
 * socket of mode `vnc` speaks RFB without a password and accepts any number of connections. All users share one
 * connection to a socket of another mode.
 */
export type ConsolePlace =
  | ({ readonly kind: 'program' } & TerminalCommand)
  | ({ readonly kind: 'guest-terminal' } & GuestTerminal)
  | ({ readonly kind: 'guest-program' } & TerminalCommand)
  | { readonly kind: 'socket'; readonly path: string }

/** Cause of a guest's end: it shut down, it crashed or was killed, or the kernel killed it because memory ran out. */
export type StopCause = 'guest' | 'crash' | 'memory'
/** Event of a guest that keeps running: it has rebooted by itself, or has reported a kernel panic. */
export type GuestEvent = 'rebooted' | 'panicked'

/** Limits of the transfer of a running guest's memory. */
export interface MemoryLimits {
  /** Maximum rate in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
  /** Maximum expected duration in ms of the transfer of the memory that is left when the guest is paused. */
  readonly maxDowntimeMs: number
}

/** Maximum share of a guest's processor time, in percent, that the guest loses while its memory is sent. */
export const mostSlowedPercent = 70

/** How far the memory of a running guest has been sent. */
export interface MemoryProgress {
  /** `paused`: the guest waits for `finishSending`. `sent`: the other host has all memory, and the guest is paused. */
  readonly state: 'sending' | 'paused' | 'sent'
  readonly remainingBytes: number
  readonly bytesPerSec: number
  readonly expectedDowntimeMs: number
  /** Percentage of the guest's processor time that is withheld, because its memory changes faster than it is sent. */
  readonly slowedPercent: number
  /** Bytes that the guest has written to its disk since its start. 0: not known. */
  readonly writtenBytes: number
}

/** Moves running guests to other hosts. Facts about a guest are a text that only the drivers understand. */
export interface LiveMoves {
  /** Describes a running guest. @throws {BerthError} `offline_required` if it cannot move while it runs */
  describe(machine: Machine): Promise<string>
  /**
   * Lists the reasons why a guest with these facts cannot continue on this host. Empty: the guest can continue.
   * @throws {BerthError} `bad_stream`
   */
  findObstacles(machine: Machine, facts: string): Promise<string[]>
  /** Prepares the arrival of a guest that does not run yet. Its volume must exist. Replaces an earlier preparation. */
  receive(machine: Machine, facts: string, signal: AbortSignal): Promise<void>
  /** Opens the connection over which a prepared guest receives its memory. */
  connect(machine: Machine): Promise<Socket>
  /** Gives the prepared guest's disk the content of a snapshot. @param snapshot path of the snapshot's volume */
  adopt(machine: Machine, snapshot: string): Promise<void>
  /** Waits until the memory has arrived. @throws {BerthError} `memory_not_sent` if this takes longer than 30 s */
  confirm(machine: Machine): Promise<void>

  /**
   * Begins to send the memory of a running guest. The driver pauses the guest for the last part.
   * @returns the connection that supplies the memory
   * @throws {BerthError} `offline_required` if the guest cannot move while it runs
   */
  send(machine: Machine, limits: MemoryLimits): Promise<Socket>
  /** @throws {BerthError} `memory_not_sent` if the transfer has failed */
  readProgress(machine: Machine): Promise<MemoryProgress>
  /** Records on the host that the guest is paused. Then `start` continues the guest, and `observe` omits the guest. */
  notePaused(machine: Machine): void
  /**
   * Asks the driver's process whether the guest is still paused in this state of the transfer. A guest whose memory was
   * sent counts as paused even without a process.
   * @throws {BerthError} `memory_not_sent` if the guest is not paused in this state
   */
  checkPaused(machine: Machine, state: 'paused' | 'sent'): Promise<void>
  /** Sends the last part of the memory of a paused guest. Returns when all memory was sent. */
  finishSending(machine: Machine, signal: AbortSignal): Promise<void>
  /**
   * Stops sending. Lets a paused guest run again, even if its memory was sent completely. Does nothing for a stopped
   * guest. Call this only on the host that owns the guest.
   */
  release(machine: Machine): Promise<void>
}

/**
 * Runs guests on volumes that agent/storage creates. LXC containers and QEMU virtual machines have a driver each:
 *
 * | | LXC | QEMU |
 * |---|---|---|
 * | volume | the root filesystem, with a quota | raw disk, firmware variables, seed |
 * | initialize | files in its root, by openat2 | grows the disk, NoCloud seed |
 * | configure | lxc config file | argument list |
 * | start | lxc-start | qemu process, QMP greeting |
 * | stop | SIGPWR/SIGRTMIN+3 to init | QMP system_powerdown |
 * | observe | groups and processes | QMP sockets |
 * | resize | cgroup files | cgroup files, balloon, block_resize, throttle |
 * | freeze | cgroup freezer | guest-fsfreeze, if its agent answers |
 * | setPassword | chpasswd inside; stopped: its shadow file | guest-set-user-password |
 */
export interface Driver {
  readonly kind: 'lxc' | 'kvm'
  /** Configured time in ms from the request to shut down until a guest that still runs is killed. */
  readonly stopTimeoutMs: number

  describe(): Promise<DriverDescription>

  /** Quota of the guest's volume in bytes. 0: no quota is needed, because the disk file has a fixed size. */
  volumeLimitBytes(machine: Machine): number
  /** Does a slow part of `initialize` in advance: hashes the password, which needs no volume. */
  prepareLogin(login: Login): Promise<Login>
  /**
   * Sets the guest's size, host name and login in a new clone of an image.
   * @param volume the guest's volume, or a volume that is about to replace it
   * @throws {BerthError} `guest_running` if the volume belongs to a running guest
   */
  initialize(machine: Machine, login: Login, volume: string): Promise<void>
  /**
   * Gives a copied volume a new identity, and this guest's host name and login. The copied guest and this guest can
   * then run at the same time.
   */
  adopt(machine: Machine, login: Login, copy: VolumeCopy): Promise<void>
  /**
   * Writes the machine's host name to the guest's files. The guest reads these at its next start. The method is missing
   * if guests of this kind get their host name from the configuration of each start.
   */
  setHostname?(machine: Machine): Promise<void>
  prepareEmpty(volume: string): Promise<void>
  /** Checks the files that were restored from a backup. Frees space that the files do not need. */
  trimFetched(volume: string): Promise<void>
  /**
   * Checks a volume that another host has sent. This host must be able to run the system on the volume, and the files
   * must not exceed the size of the guest's disk. The method is missing if the host can run every system of this kind.
   * @throws {BerthError} `unsupported`, `bad_stream`
   */
  checkReceived?(volume: string, diskBytes: number): Promise<void>
  /** Writes everything that a start needs. Replaces the result of an earlier call. */
  configure(machine: Machine): Promise<void>
  /**
   * Starts the guest and returns as soon as its first process runs. Does nothing for a running guest.
   * @param connected called when the guest's interface exists, possibly before the guest runs. `start` awaits the
   * returned promise. If this promise rejects, `start` throws the error, but the guest runs.
   */
  start(machine: Machine, signal: AbortSignal, connected?: () => Promise<void>): Promise<void>
  /** Asks the guest to shut down, and kills it after `timeoutMs`. Does nothing for a stopped guest. */
  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void>
  kill(machine: Machine): Promise<void>
  /** Removes configuration and run-time files. The guest must be stopped. */
  delete(machine: Machine): Promise<void>

  /** Lists every guest of this driver that has a process on the host. Changes nothing. */
  observe(): Promise<ObservedGuest[]>
  /** Returns the host's processors that each running guest is allowed to use, by the guest's uuid. */
  readProcessors(): Promise<ReadonlyMap<string, readonly number[]>>
  /** Lists the uuids of all guests with a configuration on the host, even if they are not in the journal. */
  listTraces(): Promise<string[]>
  /**
   * Removes the configuration of a guest that is not in the journal.
   * @returns false if nothing was removed, because the guest runs, or a process possibly belongs to the guest
   */
  removeTraces(uuid: string): Promise<boolean>
  /** Registers a listener for guests that ended by themselves or were killed from outside. */
  onStopped(listener: (uuid: string, cause: StopCause) => void): void

  /**
   * Registers a listener for events inside guests. A guest can cause any number of events. The method is missing if the
   * driver's guests report no events.
   */
  onEvent?(listener: (uuid: string, event: GuestEvent) => void): void

  usage(machine: Machine, pid: number): Promise<UsageSample>
  /**
   * Returns `UsageSample.diskBytes` of a running guest, at most a few seconds old. Each call takes a fraction of a
   * second, even if the guest does not answer. The method is missing if the driver's samples lack this figure.
   */
  readDiskUse?(machine: Machine): Promise<number | undefined>
  /** Sets all limits except the volume's, in the running guest and for its next start. Cheap if nothing changes. */
  resize(machine: Machine): Promise<ResizeResult>
  /**
   * Adds the guest's IPv6 addresses inside the running guest, and removes the addresses in `gone`. Addresses that the
   * guest set itself stay. The change survives a reboot by the guest itself. Does nothing for a stopped guest, because
   * `configure` gives it the addresses for its next start.
   */
  assignAddresses(machine: Machine, gone: readonly string[]): Promise<AssignResult>
  /**
   * Creates a running guest's interface again if the host lost it. Does nothing for a stopped guest.
   * @returns true if the interface was missing
   */
  connect(machine: Machine): Promise<boolean>

  /**
   * Sets root's password. `DriverCapabilities.setPassword` lists the states of the guest in which this is possible.
   * @throws {BerthError} `unsupported`, `guest_refused` with the guest's reason
   */
  setPassword(machine: Machine, password: string): Promise<PasswordResult>
  /**
   * Writes root's password to the guest's files, for a guest whose chpasswd failed. The method is missing if the driver
   * cannot do this.
   * @throws {BerthError} `guest_refused` with the guest's reason, for example while the guest is changing its own
   * accounts
   */
  overridePassword?(machine: Machine, password: string): Promise<PasswordResult>
  /**
   * Reads root's login from the guest's disk, where its owner may have changed it.
   * @returns undefined if the login cannot be read; the caller then uses the login that Berth set last
   */
  readLogin(machine: Machine): Promise<CurrentLogin | undefined>
  /**
   * Suspends all processes of the guest, or all its writes, until `thaw` is called. Does nothing for a stopped guest.
   * @returns false if the guest could not be frozen within `timeoutMs`; even then, the caller must call `thaw`
   */
  freeze(machine: Machine, timeoutMs: number): Promise<boolean>
  /**
   * Thaws a guest that is, or may be, frozen. Does nothing for other guests.
   * @throws if the guest may still be frozen. The driver can then retry in the background.
   */
  thaw(machine: Machine): Promise<void>

  /** Moves running guests to other hosts. Undefined if the driver's guests cannot move while they run. */
  readonly live?: LiveMoves

  /**
   * Finds a console.
   * @param command program with its arguments, for mode `run`
   * @throws {BerthError} `guest_not_running`, `unsupported` if the driver does not offer the mode
   */
  findConsole(machine: Machine, mode: ConsoleMode, command?: readonly string[]): Promise<ConsolePlace>
  /** Returns the guest's screen as a PNG. @throws {BerthError} `guest_not_running`, `unsupported` */
  screenshot(machine: Machine): Promise<Buffer>
}
