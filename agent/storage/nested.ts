import { randomBytes } from 'node:crypto'
import { lstat, readdir, rename } from 'node:fs/promises'

/** Inode number of each subvolume's root directory. No other directory has this number (BTRFS_FIRST_FREE_OBJECTID). */
const subvolumeInode = 256
/** Longest path in bytes of a directory that is searched. It leaves room for one more name below PATH_MAX. */
const maxPathBytes = 3000

/**
 * Finds the topmost subvolumes inside the subvolume at `root`. Processes must not write to the subvolume at this time.
 * The function walks the tree, because btrfs(8) prints lists as text, in which a name with a line break could look like
 * another subvolume. Directories whose path would be too long are moved up to the root.
 */
export async function findNestedSubvolumes(root: string): Promise<Buffer[]> {
  const found: Buffer[] = []
  const pending: Buffer[] = [Buffer.from(root)]
  for (let directory = pending.pop(); directory; directory = pending.pop()) {
    for (const child of await readDirectories(directory)) {
      const stats = await lstat(child)
      if (stats.ino === subvolumeInode) found.push(child)
      else if (stats.isDirectory()) pending.push(child.length < maxPathBytes ? child : await moveUp(child, root))
    }
  }
  return found
}

async function readDirectories(directory: Buffer): Promise<Buffer[]> {
  const entries = await readdir(directory, { withFileTypes: true, encoding: 'buffer' })
  return entries
    .filter((entry) => entry.isDirectory())
    .map((entry) => Buffer.concat([directory, Buffer.from('/'), entry.name]))
}

async function moveUp(directory: Buffer, root: string): Promise<Buffer> {
  const target = Buffer.from(`${root}/moved.${randomBytes(6).toString('hex')}`)
  await rename(directory, target)
  return target
}
