import { BerthError } from '../../shared/errors.js'

/** Error for files that need more space than the disk of the new guest has. */
export function importTooSmall(cause?: Error): BerthError {
  return new BerthError(
    'conflict',
    'disk_too_small',
    'the files do not fit on the disk of the new container: choose a larger disk',
    { cause },
  )
}
