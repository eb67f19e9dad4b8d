import { BerthError } from '../../../shared/errors.js'
import type { BackupSize } from '../../backups/contract.js'
import type { GuestRecord } from '../record/record.js'

const gib = 1024 ** 3
const kindNames = { lxc: 'container', kvm: 'virtual machine' } as const

/** The guest that a backup is restored onto. */
export type RestoredGuest = Pick<GuestRecord['spec'], 'virtualization' | 'limits'>

/**
 * Checks the known facts about a backup before it is fetched. Backups of older versions do not record the kind of their
 * guest. For these backups, the drivers check the fetched data.
 * @throws {BerthError} `unsupported`, `disk_too_small`
 */
export function checkBackupFits(
  { virtualization, limits }: RestoredGuest,
  { sizeBytes, virtualization: kind }: Pick<BackupSize, 'sizeBytes' | 'virtualization'>,
): void {
  if (kind !== undefined && kind !== virtualization) throw otherKind(kind, virtualization)
  // Besides the disk, a backup has only some MiB. Rounding down to GiB therefore gives the size of the disk.
  const neededGb = Math.floor(sizeBytes / gib)
  if (virtualization === 'kvm' && neededGb > limits.diskGb) throw diskTooSmall(neededGb)
}

function otherKind(kind: 'lxc' | 'kvm', virtualization: 'lxc' | 'kvm'): BerthError {
  const [original, guest] = [kindNames[kind], kindNames[virtualization]]
  return new BerthError('invalid', 'unsupported', `a backup of a ${original} cannot be restored onto a ${guest}`)
}

function diskTooSmall(neededGb: number): BerthError {
  const message = `disk_gb: the disk of the backup needs at least ${neededGb} GB`
  return new BerthError('conflict', 'disk_too_small', message, { field: 'disk_gb' })
}
