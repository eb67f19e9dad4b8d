import { randomBytes } from 'node:crypto'
import { chmod, lstat, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createSubvolume, setReadOnly, syncFilesystem } from '../host/disk/btrfs.js'
import { exists } from '../host/disk/mount.js'
import { storageError } from '../storage/errors.js'
import type { Pool } from '../storage/pool.js'
import type { Trash } from '../storage/trash.js'
import type { DownloadProgress } from './sources/download.js'

/** @param fraction 0 to 1 @param transfer of a download, while it lasts */
export type Report = (fraction: number, stage: string, transfer?: DownloadProgress) => void

/** Around the making of one image. */
export interface BuildContext {
  readonly report: Report
  readonly signal: AbortSignal
}

export interface PublishParts {
  readonly pool: Pool
  readonly trash: Trash
}

/**
 * Has an image filled and publishes it: complete and read-only, or not at all.
 * @param fill given an empty subvolume
 * @throws {BerthError} what `fill` throws, `storage_full`; the signal's reason when aborted
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

/** All of it on the disk before it has its name; read-only before, too (in the same folder it can be renamed still). */
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

/** Throws away what is left of images that were being made when their agent died. None may be in the making. */
export async function sweepWork(parts: PublishParts): Promise<void> {
  const left = (await readdir(parts.pool.images)).filter((name) => name.startsWith('.'))
  for (const name of left.filter((name) => !name.endsWith(scratchSuffix)))
    await discardWork(parts, join(parts.pool.images, name))
  for (const name of left.filter((name) => name.endsWith(scratchSuffix)))
    await rm(join(parts.pool.images, name), { recursive: true, force: true })
}

const scratchSuffix = '.tmp'
/** Beside the subvolume, for temporary files. */
export const scratchOf = (work: string): string => `${work}${scratchSuffix}`
