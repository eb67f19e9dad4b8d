import { BerthError } from '../../shared/errors.js'
import { CommandError } from '../host/process/process.js'

/** Converts a failed command on the pool to an error that distinguishes a full pool from a fault. */
export function storageError(error: unknown, step: string): BerthError {
  if (error instanceof BerthError) return error
  const full =
    (error instanceof CommandError && /No space left on device|Disk quota exceeded/.test(error.stderr)) ||
    ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')
  if (full)
    return new BerthError('exhausted', 'storage_full', `${step}: the storage pool of the host is full`, {
      cause: error,
    })
  return new BerthError('internal', 'storage_error', step, { cause: error })
}
