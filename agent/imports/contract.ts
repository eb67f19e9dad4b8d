import type { ExportManifest } from '../exports/manifest.js'
import type { IdMap } from '../host/disk/copy-tree.js'

export const sourceKinds = ['lxd', 'incus', 'proxmox-ct', 'directory', 'archive'] as const
export type SourceKind = (typeof sourceKinds)[number]

/** Values from the operator that replace values of the container. */
export interface ImportChoices {
  readonly name?: string | undefined
  readonly vcpu?: number | undefined
  readonly ramMb?: number | undefined
  readonly diskGb?: number | undefined
  /** Directory with the files of the container. */
  readonly rootfs?: string | undefined
  /** File with the configuration of the container. */
  readonly configFile?: string | undefined
  readonly start?: boolean | undefined
}

export interface ImportRequest extends ImportChoices {
  readonly kind: SourceKind
  /** Name or number of the container, or the path of the directory or archive. */
  readonly container: string
}

/** A part of the container that the guest gets in changed form or does not get, and the reason. */
export interface ImportNote {
  readonly part: string
  readonly reason: string
}

/** A mapping of ports of the host to ports of the container. */
export interface ForeignMapping {
  readonly protocol: 'tcp' | 'udp'
  /** Address of the host. Empty: all addresses. */
  readonly hostIp: string
  readonly hostPort: number
  readonly containerPort: number
  readonly length: number
  /** Valid description of the mapping. Absent: none. */
  readonly description?: string
}

export interface ForeignRates {
  readonly networkDownMbps: number
  readonly networkUpMbps: number
  readonly ioReadMbps: number
  readonly ioWriteMbps: number
  readonly ioReadIops: number
  readonly ioWriteIops: number
}

/** Description of a container, from its foreign configuration. Undefined values are not configured. */
export interface ForeignContainer {
  readonly name: string
  /** Reason why the container must not be imported now. Undefined: the import is allowed. */
  readonly refusal?: string
  readonly vcpuMilli?: number
  readonly ramMb?: number
  readonly diskBytes?: number
  readonly networkMbps?: number
  /** Rates that replace `networkMbps`. 0: unlimited. */
  readonly rates?: ForeignRates
  /** Valid tags of the guest. */
  readonly tags?: readonly string[]
  readonly addresses: readonly string[]
  readonly mappings: readonly ForeignMapping[]
  readonly devices: readonly ('tun' | 'fuse')[]
  readonly notes: readonly ImportNote[]
  /** User ids on the disk. Undefined: the stored ids are those that the container sees. */
  readonly ids?: IdMap
}

/** Reads untrusted archives that a gateway sends. */
export interface ArchiveReader {
  /**
   * Reads the manifest at the beginning of an archive. Undefined: the archive is not an export of Berth.
   * @throws {BerthError} `image_invalid` if the manifest is damaged, or has an unknown version; the signal's reason
   * when aborted
   */
  readManifest(head: Buffer, signal: AbortSignal): Promise<ExportManifest | undefined>
  /**
   * Unpacks an archive into an empty volume with a size limit, and adapts it as an imported system.
   * @throws {BerthError} `image_invalid`, `disk_too_small`; the error of `parts`; the signal's reason when aborted
   */
  unpack(parts: AsyncIterable<Buffer>, target: string, signal: AbortSignal): Promise<void>
}
