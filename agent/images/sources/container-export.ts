import { randomBytes } from 'node:crypto'
import { chmod, chown, lstat, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'

/*
 * An unpacked archive may contain another container format around the root filesystem. No program runs in the tree
 * meanwhile, and lstat(2) and rename(2) follow no links.
 */

/** A name that does not occur in an archive. */
const temporaryName = (): string => `.berth-${randomBytes(8).toString('hex')}`

/**
 * LXD and Incus export an image as one archive with `metadata.yaml` and `rootfs/`, and templates for files that Berth
 * writes itself. The root filesystem replaces everything else. Source: documentation.ubuntu.com/lxd, image format
 * (unified)
 */
export async function unwrapExport(tree: string): Promise<void> {
  const rootfs = join(tree, 'rootfs')
  const isExport = (await kindOf(join(tree, 'metadata.yaml'))) === 'file' && (await kindOf(rootfs)) === 'directory'
  if (!isExport) return
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

/** @returns the path of the only file in the tree, which is renamed so that no file in it can replace it */
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
