import type { GuestRecord } from '../record/record.js'
import type { OperationKinds } from '../../operations/orders.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext } from '../context.js'
import { backupCreateKind } from './backup-create.js'
import { backupDeleteKind } from './backup-delete.js'
import { backupRestoreKind } from './backup-restore.js'
import { backupTargetCheckKind } from './backup-target-check.js'
import { changeBootKind } from './change-boot.js'
import { createFromBackupKind } from './create-from-backup.js'
import { createKind } from './create.js'
import type { CopyParts } from '../moves/copy-disk.js'
import { LiveSender } from '../moves/live-sender.js'
import { deleteCopyKind } from './delete-copy.js'
import { deleteKind } from './delete.js'
import { migrateKind } from './migrate.js'
import { reinstallKind } from './reinstall.js'
import { resetPasswordKind } from './reset-password.js'
import { restartKind } from './restart.js'
import { snapshotCreateKind } from './snapshot-create.js'
import { snapshotDeleteKind } from './snapshot-delete.js'
import { snapshotRestoreKind } from './snapshot-restore.js'
import { startKind } from './start.js'
import { stopKind } from './stop.js'

/** Parts of the agent that are needed to move guests to other hosts. */
export interface MoveParts {
  readonly copy: CopyParts
  readonly live: LiveSender
}

export type GuestKinds = Omit<OperationKinds<GuestRecord>, 'changeSwap' | 'imageDownload'>

/** Returns the kinds of operations on guests, by their name in the protocol (`SubmitOperationRequest.order`). */
export function guestKinds(
  context: BackupContext,
  capacity: HostCapacity,
  moves: MoveParts = movesWithoutTraffic(context),
): GuestKinds {
  return {
    create: createKind(context, capacity),
    createFromBackup: createFromBackupKind(context, capacity),
    start: startKind(context),
    stop: stopKind(context),
    restart: restartKind(context),
    delete: deleteKind(context),
    deleteCopy: deleteCopyKind(context),
    resetPassword: resetPasswordKind(context),
    reinstall: reinstallKind(context, capacity),
    snapshotCreate: snapshotCreateKind(context, capacity),
    snapshotRestore: snapshotRestoreKind(context),
    snapshotDelete: snapshotDeleteKind(context),
    backupCreate: backupCreateKind(context),
    backupRestore: backupRestoreKind(context, capacity),
    backupDelete: backupDeleteKind(context),
    backupTargetCheck: backupTargetCheckKind(context),
    changeBoot: changeBootKind(context, capacity),
    migrate: migrateKind(moves.copy, moves.live),
  }
}

function movesWithoutTraffic(context: BackupContext): MoveParts {
  const copy = { context, readTraffic: async () => null }
  return { copy, live: new LiveSender(copy) }
}
