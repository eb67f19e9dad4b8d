import { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import { checkBackupTarget } from '../../../shared/backup-target-rules.js'
import { BerthError } from '../../../shared/errors.js'
import type { Repository } from '../../backups/contract.js'
import type { Subject } from '../../operations/types.js'
import type { TargetVault } from '../../backups/vault.js'
import type { GuestContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'

/** Stored input of all operations that use a backup target. */
export interface TargetInput {
  targetId: string
  /** Encrypted target, because the journal contains no secrets in clear text. */
  target: string
}

/** Subject of a guest's backup operations, which wait for each other, but not for starts and stops of the guest. */
export function backupSubject({ store }: Pick<GuestContext, 'store'>, uuid: string): Subject {
  const id = parseUuid('uuid', uuid)
  const known = store.find(id)
  return { kind: 'backup', id, name: known?.name ?? '', number: known?.id ?? 0 }
}

/**
 * Checks and encrypts the backup target of a request.
 * @param about uuid of the guest or id of the target; needed again to decrypt the target
 */
export function parseBackupTarget(targets: TargetVault, about: string, target: BackupTarget | undefined): TargetInput {
  if (!target) throw new BerthError('invalid', 'missing_field', 'target: is required', { field: 'target' })
  checkBackupTarget(target)
  return { targetId: target.id, target: targets.seal(about, target) }
}

/**
 * Decrypts a backup target.
 * @param about id for which the target was encrypted
 * @param guest owner of the backups; default: `about`
 */
export function repositoryOf(targets: TargetVault, about: string, { target }: TargetInput, guest = about): Repository {
  return { target: targets.open(about, target), guest }
}
