import type { StageText } from '../../shared/task-stages.js'
import type { Logger } from 'pino'
import type { BackupRepositories } from '../backups/contract.js'
import type { TargetVault } from '../backups/vault.js'
import type { AgentConfig } from '../config.js'
import type { DriverKind } from '../drivers/drivers.js'
import type { Network } from '../network/contract.js'
import type { StepContext } from '../operations/types.js'
import type { ImageType } from '../images/catalog.js'
import type { DiskTransfers } from '../storage/disk-transfers.js'
import type { Volumes } from '../storage/volumes.js'
import type { GuestHistory } from './record/guest-history.js'
import type { StartGate } from './ownership/start-gate.js'
import type { LoginVault } from './login-vault.js'
import type { GuestMachines } from './machines.js'
import type { HostPorts } from './resources/host-ports.js'
import type { GuestRecord } from './record/record.js'
import type { GuestStore } from './record/guest-store.js'

/** The methods of `Images` that operations on guests need. */
export interface GuestImages {
  /**
   * Checks that new guests can be created from the image.
   * @throws {BerthError} `invalid_field`, `unsupported`, `image_disabled`
   */
  checkUsable(templateId: string, virtualization: DriverKind): void
  /** Checks that a guest can boot from the image instead of its disk. @throws the errors of `checkUsable` */
  checkBootable(templateId: string, types: readonly ImageType[]): void
  /** Returns the id of the template to use. For kvm, a container's template is replaced by its counterpart, if any. */
  idFor(templateId: string, virtualization: DriverKind): string
  osOf(templateId: string): 'linux' | 'windows'
  /** True if the image is on this host. */
  has(templateId: string): boolean
  ensure(templateId: string, report: (fraction: number, stage: StageText) => void, signal: AbortSignal): Promise<void>
}

/** The imports of existing containers of the host, and of archives that a gateway sends. */
export interface GuestImports {
  /** True if a gateway sends the archive of this import now. The import then has no host ports yet. */
  isUpload(id: string): boolean
  /**
   * Records that the guest of an import is being created. Joins the caller's transaction.
   * @throws {BerthError} `invalid_field` if the import does not wait; `import_interrupted` if the sender of an archive
   * has disconnected
   */
  order(id: string): void
  /** Forgets an import, because the creation of its guest has ended. Joins the caller's transaction. */
  end(id: string): void
  /** Ends the reception of an archive with this error. Has no effect on other imports. */
  fail(id: string, error: unknown): void
  /**
   * Copies the files of the original container into an empty volume. Makes the copied network services ignore eth0.
   * @throws {BerthError} `import_refused`, `import_interrupted`, `disk_too_small`, `image_invalid`; the signal's reason
   * when aborted
   */
  copy(id: string, volume: string, step: ImportStep): Promise<void>
  /**
   * Makes the copied files the disk of the guest. The sender of an archive learns that all files were received only
   * after `keep` has made the disk durable.
   * @throws {BerthError} `import_interrupted` if the sender of the archive has disconnected; the error of `keep`
   */
  complete(id: string, keep: () => Promise<void>): Promise<void>
}

export interface ImportStep extends Pick<StepContext<unknown>, 'report' | 'signal'> {
  /** Size of the disk of the guest in bytes. */
  readonly diskBytes: number
}

/** A guest's traffic in the current period. */
export interface TrafficUse {
  /** Bytes of IP packets, including their headers. */
  readonly rxBytes: number
  readonly txBytes: number
  /** First day of the period, YYYY-MM-DD in the host's time zone. */
  readonly periodStart: string
  readonly resetsAtMs: number
  /** Offset of the host's time zone at `resetsAtMs`, in minutes east of UTC. */
  readonly utcOffsetMinutes: number
}

/** Enforces traffic quotas and expiry times, which decide whether a guest is allowed to run. */
export interface PolicyKeeper {
  readUse(record: GuestRecord): TrafficUse
  /** Counts traffic up to now. If the host's counters cannot be read, logs this and counts nothing. */
  count(): Promise<void>
  /** Sets the present period's traffic to 0 without reading the counters. Joins the caller's transaction. */
  resetUse(uuid: string): void
  /**
   * Compares the guest's traffic and the clock with its quota and expiry. Records the result in the guest's `policy`,
   * stops a guest that is not allowed to run, and limits or restores its rates. Idempotent. Call this after a change of
   * a quota, an expiry or the counted traffic.
   */
  judge(uuid: string): Promise<void>
}

/** The methods of `Volumes` that operations on guests need; see agent/storage/volumes.ts. */
export type GuestVolumes = Pick<Volumes, 'pathOf' | 'clone' | 'resize' | 'remove' | 'removeDisk' | 'list' | 'usage'> &
  Pick<Volumes, 'nextPathOf' | 'measureNext' | 'prepare' | 'has' | 'discardNext' | 'exchange' | 'restore'> &
  Pick<Volumes, 'prepareRescue' | 'discardRescue' | 'rescuePathOf' | 'imagePathOf'> &
  Pick<Volumes, 'snapshot' | 'listSnapshots' | 'deleteSnapshot' | 'snapshotPathOf'> &
  Pick<Volumes, 'snapshotsCount' | 'expectedRetained' | 'exclusiveBytes' | 'areFreed'>

/** The methods of `DiskTransfers` that are needed to move guests; see agent/storage/disk-transfers.ts. */
export type GuestTransfers = Pick<DiskTransfers, 'send' | 'receive' | 'confirm' | 'listComplete'> &
  Pick<DiskTransfers, 'countReceived' | 'endSends' | 'discard'>

/** Dependencies of the code in agent/guests. They are created in agent/daemon/domain.ts. */
export interface GuestContext {
  readonly config: AgentConfig
  readonly store: GuestStore
  readonly volumes: GuestVolumes
  readonly transfers: GuestTransfers
  readonly network: Network
  readonly ports: HostPorts
  readonly images: GuestImages
  readonly imports: GuestImports
  readonly machines: GuestMachines
  readonly log: Logger
  readonly logins: LoginVault
  readonly history: GuestHistory
  readonly now: () => number
  /** Delays the start of guests after a boot of the host. Absent: guests may start at any time. */
  readonly startGate?: StartGate
}

/** Dependencies of changes to the volumes of guests. */
export type DiskContext = Pick<GuestContext, 'store' | 'machines' | 'volumes'>

/** Dependencies of starts and stops of guests. */
export type BootContext = Pick<GuestContext, 'config' | 'store' | 'machines' | 'network' | 'startGate'>

/** Dependencies of operations on backups. */
export interface BackupContext extends GuestContext {
  readonly backups: BackupRepositories
  readonly targets: TargetVault
}
