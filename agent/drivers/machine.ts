import type { GuestDevice } from '../../shared/guest-devices.js'

/**
 * The facts about a guest that a driver gets: numbers and names, already decided and validated. A driver makes no
 * choices and stores no state except on the host. Every method is idempotent.
 */
export interface Machine {
  readonly uuid: string
  /** Unique on the host; all host-side names are derived from it. */
  readonly id: number
  readonly hostname: string
  /** Fully qualified name, beginning with `hostname` and a dot; absent: the guest has no domain. */
  readonly fqdn?: string
  /**
   * Absolute path of the guest's volume: a subvolume that agent/storage creates, exchanges and removes. LXC: the root
   * file system; QEMU: a directory with disk, firmware variables and seed.
   */
  readonly volume: string
  /** Absent: the guest boots from its disk. */
  readonly boot?: MachineBoot
  readonly limits: MachineLimits
  readonly isolation: Isolation
  readonly nic: MachineNic
  /** Name servers for resolv.conf. */
  readonly resolvers: readonly string[]
  /** Devices of the host that a container may use; absent: none. */
  readonly devices?: readonly GuestDevice[]
}

/** The source that a guest boots from. Paths are absolute. */
export type MachineBoot =
  | { readonly mode: 'disk' }
  /** Boots from a CD, then from the guest's disk; virtual machines only. */
  | { readonly mode: 'cdrom'; readonly iso: string }
  /**
   * Boots from a separate volume with a rescue system. A container sees its own volume at /mnt, a virtual machine as
   * its second disk.
   */
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
  /** Processors of the host that the guest runs on, in ascending order; absent: all. */
  readonly cpus?: readonly number[]
}

/** Bounds that keep guests apart on the host. QEMU needs one user id and few threads; LXC needs all of it. */
export interface Isolation {
  /** First of 65,536 host uids and gids that belong only to this guest. */
  readonly userIdBase: number
  /** Maximum number of processes and threads. */
  readonly pidsMax: number
}

export interface MachineNic {
  /** Host-side interface: the veth of a container, the tap of a virtual machine. */
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

/** A copy of another guest's volume. */
export interface VolumeCopy {
  /** Path of the new volume, which is about to replace the guest's. */
  readonly volume: string
  /**
   * Name servers that the host assigned to the original; absent: not known. Name servers that the owner of the original
   * set stay.
   */
  readonly resolvers?: readonly string[]
}

/** Login of root, set at first boot. */
export interface Login {
  readonly password?: string
  /** crypt(5) hash of the password; absent: not computed yet. */
  readonly passwordHash?: string
  readonly publicKey?: string
  /** Lines of `authorized_keys` on the guest's disk, used instead of `publicKey`. */
  readonly authorizedKeys?: readonly string[]
  /** The customer's own user data for cloud-init. Drivers without cloud-init never get any. */
  readonly userData?: string
}

/** Root's current login, as stored on the guest's disk. */
export interface CurrentLogin {
  /** Root's field in the shadow file; `*` if no password works. */
  readonly passwordHash: string
  readonly authorizedKeys: readonly string[]
}
