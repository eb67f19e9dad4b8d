import { Type } from 'typebox'
import { BerthError, conflict } from '../../shared/errors.js'
import type { BackupTargets } from '../backups/targets.js'

export const TargetIdSchema = Type.String({
  maxLength: 64,
  description: 'Id of the backup target. Required if several targets exist. Default: the only existing target.',
})

/** @throws {BerthError} `missing_field` if no target is named and several exist, `backup_target_missing` */
export async function targetIdFor(
  { targets }: { readonly targets: Pick<BackupTargets, 'list'> },
  wanted: string | undefined,
): Promise<string> {
  const known = await targets.list()
  if (wanted !== undefined) {
    if (known.some(({ id }) => id === wanted)) return wanted
    throw conflict('backup_target_missing', 'target_id: this backup target does not exist')
  }
  const [only, ...others] = known
  if (only && others.length === 0) return only.id
  if (!only) throw conflict('backup_target_missing', 'no backup target exists: an administrator must add one')
  const message = 'target_id: is required because there are several backup targets'
  throw new BerthError('invalid', 'missing_field', message, { field: 'target_id' })
}
