import { randomBytes } from 'node:crypto'
import { chmod, chown, lstat, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'

/*
 * This module finds the root filesystem in an unpacked archive that contains further files of a container format. Links
 * in the tree are harmless, because no program uses the tree at this time, and lstat(2) and rename(2) follow no links.
 */

/** Name of the manifest in exports of Berth. It is the first file of the archive. */
export const manifestName = 'berth-export.json'

/** Returns a random name that no archive contains. */
const temporaryName = (): string => `.berth-${randomBytes(8).toString('hex')}`

/**
 * Replaces the content of a tree by its `rootfs/`, if the tree is an export of Berth, LXD or Incus
 * (documentation.ubuntu.com/lxd, unified image format). An export of Berth also contains a manifest, and others contain
 * `metadata.yaml` and templates for files that Berth writes itself.
 */
export async function unwrapExport(tree: string): Promise<void> {
  const rootfs = join(tree, 'rootfs')
  const descriptions = await Promise.all([manifestName, 'metadata.yaml'].map((name) => kindOf(join(tree, name))))
  if (!descriptions.includes('file') || (await kindOf(rootfs)) !== 'directory') return
  const inner = join(tree, temporaryName())
  await rename(rootfs, inner)
  for (const name of await readdir(tree))
    if (join(tree, name) !== inner) await rm(join(tree, name), { recursive: true, force: true })
  const { uid, gid, mode } = await lstat(inner)
  await chown(tree, uid, gid)
  await chmod(tree, mode & 0o7777)
  for (const name of await readdir(inner)) await rename(join(inner, name), join(tree, name))
  await rmdir(inner)
}

/** Renames the only file in the tree to a random name. @returns its path; undefined if the tree is not a single file */
export async function takeOnlyFile(tree: string): Promise<string | undefined> {
  const [name, ...others] = await readdir(tree)
  if (name === undefined || others.length > 0 || (await kindOf(join(tree, name))) !== 'file') return undefined
  const path = join(tree, temporaryName())
  await rename(join(tree, name), path)
  return path
}

async function kindOf(path: string): Promise<'file' | 'directory' | undefined> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isFile()) return 'file'
  return found?.isDirectory() ? 'directory' : undefined
}
