import { setLimit } from '../host/disk/btrfs-ioctl.js'
import { adaptTree } from './adapt.js'
import { makeImage, type BuildContext, type PublishParts } from './publish.js'
import { unpackArchive } from './sources/unpack.js'

export interface InstallParts extends PublishParts {
  /** First of 65,536 unused user ids of the host. */
  readonly hostIdBase: number
  /** Returns the maximum size of an image in bytes, computed from the pool's free space. */
  readonly readBound: () => Promise<number>
}

/**
 * Unpacks an archive of a root filesystem and publishes it as a read-only image. After a failure, no image exists.
 * @throws {BerthError} `image_invalid`, `image_too_large`, `storage_full`; the signal's reason when aborted
 */
export async function installArchive(
  parts: InstallParts,
  { id, archive }: { readonly id: string; readonly archive: string },
  making: BuildContext,
): Promise<void> {
  making.report(0.75, 'unpacking')
  const bound = await parts.readBound()
  await makeImage(parts, id, making, async (work) => {
    await setLimit(work, bound)
    await unpackArchive({ archive, target: work, hostIdBase: parts.hostIdBase }, making.signal)
    await setLimit(work, 0) // without this, guests' clones of the image would inherit the limit
    await adaptTree(work)
  })
}
