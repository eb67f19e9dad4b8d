import type { GuestDevice } from '../../shared/guest-devices.js'

/**
 * The validated facts about a guest that a driver gets. A driver makes no choices itself. It stores state only on the
 * host. Each of its methods is idempotent.
 */
export interface Machine {
  readonly uuid: string
  /** Number of the guest, unique on the host. All names of the guest on the host are derived from it. */
  readonly id: number
  readonly hostname: string
  /** Fully qualified name: `hostname`, a dot and a domain. Undefined: the guest has no domain. */
  readonly fqdn?: string
  /**
   * Absolute path of the guest's volume: a subvolume that agent/storage creates, exchanges and removes. With LXC, it is
   * the root file system. With QEMU, it is a directory with disk, firmware variables and seed.
   */
  readonly volume: string
  /** The source from which the guest boots. Default: its disk. */
  readonly boot?: MachineBoot
  readonly limits: MachineLimits
  readonly isolation: Isolation
  readonly nic: MachineNic
  /** Name servers for /etc/resolv.conf. */
  readonly resolvers: readonly string[]
  /** Devices of the host that a container is allowed to use. Default: no devices. */
  readonly devices?: readonly GuestDevice[]
}

/** The source that a guest boots from. Paths are absolute. */
export type MachineBoot =
  | { readonly mode: 'disk' }
  /** Boots from a CD and then from the guest's disk. Only for virtual machines. */
  | { readonly mode: 'cdrom'; readonly iso: string }
  /**
   * Boots from a separate volume with a rescue system. A container sees its own volume at /mnt, a virtual machine as
   * its second disk.
   */
  | { readonly mode: 'rescue'; readonly volume: string }

/** Returns the volume of the system that the guest boots. */
export function systemVolumeOf({ boot, volume }: Pick<Machine, 'boot' | 'volume'>): string {
  return boot?.mode === 'rescue' ? boot.volume : volume
}

/** Limits that every driver enforces. */
export interface MachineLimits {
  readonly vcpuMilli: number
  readonly memoryBytes: number
  /** Swap of the host that the guest is allowed to use in addition to `memoryBytes`. */
  readonly swapBytes: number
  readonly diskBytes: number
  /** Maximum rate in bytes per second. 0: unlimited. */
  readonly ioReadBytesPerSec: number
  readonly ioWriteBytesPerSec: number
  /** Maximum number of requests per second. 0 or undefined: unlimited. */
  readonly ioReadsPerSec?: number
  readonly ioWritesPerSec?: number
  /** The host's processors on which the guest is allowed to run, in ascending order. Undefined: all processors. */
  readonly cpus?: readonly number[]
}

/** Limits that separate guests on the host. LXC needs all of them. QEMU runs as one user and has few threads. */
export interface Isolation {
  /** First of 65,536 host uids and gids that belong only to this guest. */
  readonly userIdBase: number
  /** Maximum number of processes and threads. */
  readonly pidsMax: number
}

export interface MachineNic {
  /** Interface on the host: the veth of a container, the tap of a virtual machine. */
  readonly device: string
  readonly bridge: string
  readonly mac: string
  readonly ipv4: string
  readonly prefixLength: number
  readonly gateway: string
  /** IPv6 addresses. Each is a /128, so the guest reaches all other addresses through `gateway6`. */
  readonly ipv6Addresses: readonly string[]
  readonly gateway6: string
}

export interface VolumeCopy {
  /** Path of the new volume, which is about to replace the guest's volume. */
  readonly volume: string
  /**
   * Name servers that the host assigned to the copied guest. Undefined: not known. The copy keeps other name servers,
   * which the owner of the copied guest has set.
   */
  readonly resolvers?: readonly string[]
  /** True if the original will not run again. The copy then keeps its machine id and SSH host keys. Default: false. */
  readonly keepsIdentity?: boolean
}

/** Login of root that is set at the first boot. */
export interface Login {
  readonly password?: string
  /** crypt(5) hash of the password. Undefined: not computed yet. */
  readonly passwordHash?: string
  readonly publicKey?: string
  /** Lines for root's `authorized_keys` in the guest. If they are set, `publicKey` is not used. */
  readonly authorizedKeys?: readonly string[]
  /** The customer's own user data for cloud-init. Drivers without cloud-init never get any. */
  readonly userData?: string
}

/** Root's current login, as stored on the guest's disk. */
export interface CurrentLogin {
  /** Root's field in /etc/shadow. `*`: no password works. */
  readonly passwordHash: string
  readonly authorizedKeys: readonly string[]
}
