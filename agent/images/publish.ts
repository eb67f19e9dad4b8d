import { randomBytes } from 'node:crypto'
import { chmod, lstat, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createSubvolume, setReadOnly, syncFilesystem } from '../host/disk/btrfs.js'
import { exists } from '../host/disk/mount.js'
import { storageError } from '../storage/errors.js'
import type { Pool } from '../storage/pool.js'
import type { Trash } from '../storage/trash.js'
import type { DownloadProgress } from './sources/transfer.js'

/** @param fraction 0 to 1 @param transfer progress of a download, while one runs */
export type Report = (fraction: number, stage: string, transfer?: DownloadProgress) => void

/** Context of the creation of one image. */
export interface BuildContext {
  readonly report: Report
  readonly signal: AbortSignal
}

export interface PublishParts {
  readonly pool: Pool
  readonly trash: Trash
}

/**
 * Fills an image and publishes it. The image is complete and read-only, or does not exist.
 * @param fill gets an empty subvolume
 * @throws {BerthError} the errors of `fill`, `storage_full`; the signal's reason when aborted
 */
export async function makeImage(
  parts: PublishParts,
  id: string,
  { report, signal }: BuildContext,
  fill: (work: string) => Promise<void>,
): Promise<void> {
  const work = join(parts.pool.images, `.${id}.${randomBytes(6).toString('hex')}`)
  try {
    await createSubvolume(work)
    await fill(work)
    signal.throwIfAborted()
    report(0.98, 'publishing')
    await publishImage(parts.pool, work, id)
  } catch (error) {
    await discardWork(parts, work)
    signal.throwIfAborted()
    throw storageError(error, `make image ${id}`)
  }
  report(1, 'image ready')
}

/**
 * Syncs the whole image and makes it read-only before it gets its name. A read-only subvolume can still be renamed
 * within its folder.
 */
export async function publishImage(pool: Pool, work: string, id: string): Promise<void> {
  if (!(await lstat(work)).isDirectory()) throw new Error(`${work} is not a directory`)
  await chmod(work, 0o755)
  await setReadOnly(work, true)
  await syncFilesystem(pool.path)
  await rename(work, join(pool.images, id))
}

async function discardWork({ trash }: PublishParts, work: string): Promise<void> {
  await rm(scratchOf(work), { recursive: true, force: true })
  if (await exists(work)) await trash.discard(work)
}

/** Removes leftovers of images whose agent died during their creation. No image may be in creation. */
export async function sweepWork(parts: PublishParts): Promise<void> {
  const left = (await readdir(parts.pool.images)).filter((name) => name.startsWith('.'))
  for (const name of left.filter((name) => !name.endsWith(scratchSuffix)))
    await discardWork(parts, join(parts.pool.images, name))
  for (const name of left.filter((name) => name.endsWith(scratchSuffix)))
    await rm(join(parts.pool.images, name), { recursive: true, force: true })
}

const scratchSuffix = '.tmp'
/** Path next to the subvolume, for temporary files. */
export const scratchOf = (work: string): string => `${work}${scratchSuffix}`
