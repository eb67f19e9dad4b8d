import type { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import type { GuestView } from '../../fleet/contract.js'
import type { BackupParts } from './targets.js'

export interface BackupLocation {
  readonly targetId: string
  /** Uuid of the container whose disk the backup contains. */
  readonly sourceUuid: string
}

export function findBackup(guests: Iterable<GuestView>, id: string): BackupLocation | undefined {
  for (const { guest } of guests) {
    const backup = guest.backups.find((candidate) => candidate.id === id)
    if (backup) return { targetId: backup.targetId, sourceUuid: guest.uuid }
  }
  return undefined
}

/** @throws {BerthError} `backup_target_missing` if the target was removed */
export async function openTarget({ targets }: BackupParts, id: string): Promise<BackupTarget> {
  try {
    return await targets.open(id)
  } catch (error) {
    if (!(error instanceof BerthError) || error.code !== 'not_found') throw error
    throw conflict('backup_target_missing', 'the target of this backup was removed: add the target again')
  }
}
