import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import type { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type { CreateOrder, SubmitOperationResponse } from '../../proto/gen/berth/agent/v1/operation.js'

/** Result of a creation: the host that was chosen, and its agent's answer. */
export interface GuestCreation {
  readonly hostId: string
  readonly response: SubmitOperationResponse
}

/** Backup from which the disk of a new guest is restored. */
export interface CreationBackup {
  readonly target: BackupTarget
  readonly backupId: string
  /** Uuid of the guest whose disk the backup contains. */
  readonly sourceUuid: string
}

export interface GuestCreationRequest {
  /** Id of the operation. A repeated request with this id gets the first answer, with the same host, id and uuid. */
  readonly operationId: string
  readonly name: string
  readonly spec: GuestSpec
  readonly requestedBy: string
  /** Host for the guest. Default: the host with the most free resources. */
  readonly hostId?: string
  /** Absent: the disk is made from the template. */
  readonly backup?: CreationBackup
  /** Settings that the guest has from its first start on. */
  readonly settings?: Pick<CreateOrder, 'firewall' | 'backupSchedule'>
  /**
   * Called when host, id and uuid of the guest are chosen, before the host gets the order. If the promise rejects, no
   * guest is created. Repetitions of the request and attempts on other hosts call the function again.
   */
  readonly prepare?: (guest: NewGuestIds & { readonly hostId: string }) => Promise<void>
  /** True if the disk is made from an archive that the gateway sends to the host. Default: false. */
  readonly isFromArchive?: boolean
}

/** The reserved id, uuid and name of a guest whose creation begins. */
export interface NewGuestIds {
  readonly id: number
  readonly uuid: string
  readonly name: string
}

/** Resources that `holdRoom` has reserved on hosts for guests whose creation has not begun yet. */
export interface HeldRoom {
  /** Frees the reserved resources that no creation has used. Never rejects. */
  release(): Promise<void>
}
