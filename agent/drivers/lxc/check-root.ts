import { join } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import { exists } from '../../host/disk/mount.js'

/**
 * Checks the files that were restored from a backup. A container cannot start from a virtual machine's disk.
 * @throws {BerthError} `unsupported`
 */
export async function checkRoot(volume: string): Promise<void> {
  if (!(await exists(join(volume, 'disk.raw'))) || (await exists(join(volume, 'etc')))) return
  throw new BerthError('invalid', 'unsupported', 'a backup of a virtual machine cannot be restored onto a container')
}
