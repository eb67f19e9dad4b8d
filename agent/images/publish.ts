import type { StageText } from '../../shared/task-stages.js'
import { randomBytes } from 'node:crypto'
import { chmod, lstat, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createSubvolume, setReadOnly, syncFilesystem } from '../host/disk/btrfs.js'
import { exists } from '../host/disk/mount.js'
import { storageError } from '../storage/errors.js'
import type { Pool } from '../storage/pool.js'
import type { Trash } from '../storage/trash.js'
import type { DownloadProgress } from './sources/transfer.js'

/** Reports progress. @param fraction from 0 to 1 @param transfer download progress; undefined without a download */
export type Report = (fraction: number, stage: StageText, transfer?: DownloadProgress) => void

export interface BuildContext {
  readonly report: Report
  readonly signal: AbortSignal
}

export interface PublishParts {
  readonly pool: Pool
  readonly trash: Trash
}

/**
 * Creates an image and publishes it, complete and read-only. After a failure, no image exists.
 * @param fill writes the content into an empty subvolume
 * @throws {BerthError} `storage_full`, or the errors of `fill`; the signal's reason when aborted
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
    throw storageError(error, `image ${id} could not be created`)
  }
  report(1, 'image ready')
}

/**
 * Makes the image read-only, syncs the file system, and then renames the image to its final name. A read-only
 * subvolume can be renamed only within its directory.
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

/** Removes the unfinished images of agents that were killed. Call it only while no image is being created. */
export async function sweepWork(parts: PublishParts): Promise<void> {
  const left = (await readdir(parts.pool.images)).filter((name) => name.startsWith('.'))
  for (const name of left.filter((name) => !name.endsWith(scratchSuffix)))
    await discardWork(parts, join(parts.pool.images, name))
  for (const name of left.filter((name) => name.endsWith(scratchSuffix)))
    await rm(join(parts.pool.images, name), { recursive: true, force: true })
}

const scratchSuffix = '.tmp'
/** Returns the path of a directory for temporary files, next to the subvolume. */
export const scratchOf = (work: string): string => `${work}${scratchSuffix}`
