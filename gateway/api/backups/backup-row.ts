import { Type, type Static } from 'typebox'
import type { Backup } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { GuestView } from '../../fleet/contract.js'
import { TimeSchema, timeSchema } from '../../http/schema.js'

export const BackupSchema = Type.Object(
  {
    id: Type.String(),
    container_id: Type.Integer(),
    container_name: Type.String(),
    target_id: Type.String(),
    target_name: Type.String({ description: 'Name of the backup target. Empty: the target was removed.' }),
    created_at: TimeSchema,
    created_by: Type.String(),
    scheduled: Type.Boolean({
      description: '`true`: the backup schedule created the backup. `false`: a caller requested it.',
    }),
    size_bytes: Type.Integer({ description: 'Total size of the files in the backup. 0: not known.' }),
    stored_bytes: Type.Integer({
      description:
        'Bytes that this backup added to the data on the target. 0: it added none, or the number is not known.',
    }),
    verified_at: timeSchema('the backup was last verified', 'it was never verified'),
    description: Type.String(),
  },
  { title: 'Backup' },
)
export type BackupRow = Static<typeof BackupSchema>

export interface FoundBackup {
  readonly view: GuestView
  readonly backup: Backup
}

/** Lists the backups of guests, newest first. */
export function listBackups(guests: Iterable<GuestView>): FoundBackup[] {
  const found = [...guests].flatMap((view) => [...view.guest.backups].reverse().map((backup) => ({ view, backup })))
  return found.sort((a, b) => b.backup.createdAtMs - a.backup.createdAtMs)
}

/** @param targetNames names of backup targets by id */
export function backupRow(
  { view: { guest }, backup }: FoundBackup,
  { targetNames, time }: { readonly targetNames: ReadonlyMap<string, string>; readonly time: TimeFormat },
): BackupRow {
  return {
    id: backup.id,
    container_id: guest.id,
    container_name: guest.name,
    target_id: backup.targetId,
    target_name: targetNames.get(backup.targetId) ?? '',
    created_at: time.format(backup.createdAtMs),
    created_by: backup.createdBy,
    scheduled: backup.scheduled,
    size_bytes: backup.sizeBytes,
    stored_bytes: backup.storedBytes,
    verified_at: time.format(backup.verifiedAtMs),
    description: backup.description,
  }
}
