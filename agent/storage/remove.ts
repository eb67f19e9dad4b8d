import { readdir, rm, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Logger } from 'pino'
import { setScheduler } from '../host/disk/block-queue.js'
import { setReadOnly } from '../host/disk/btrfs.js'
import { detachLoop, findLoops, readBackingFile } from '../host/disk/loop.js'
import { exists, findMount, unmount } from '../host/disk/mount.js'
import { openPool, resolveWant, unfinished, type StorageConfig } from './pool.js'
import { Trash } from './trash.js'
import { Volumes } from './volumes.js'

/**
 * Removes the pool with its content, for a purge. Call it only while no guest runs. A pool on a loop file is deleted
 * with the file. On a device, or in a mount of another program, only Berth's folders are deleted. Safe to repeat, even
 * on an incomplete pool.
 */
export async function removePool(config: StorageConfig, log: Logger): Promise<void> {
  const { pool, device, loopFile } = await resolveWant(config)
  const mounted = await findMount(pool)
  const onLoop = !mounted || (await readBackingFile(mounted.source)) === loopFile
  if (device || !onLoop) return removeFolders(config, log)
  if (mounted) unsetScheduler(mounted.source)
  if (mounted) await unmount(pool)
  await removeLoopFile(loopFile)
  await rmdirIfEmpty(pool)
}

async function removeFolders(config: StorageConfig, log: Logger): Promise<void> {
  const pool = await openPool(config)
  const trash = new Trash(pool, log)
  await trash.sweep()
  const volumes = new Volumes(pool, trash)
  for (const guest of await volumes.list()) await volumes.remove(guest)
  for (const folder of [pool.guests, pool.images]) {
    for (const name of await readdir(folder)) {
      await setReadOnly(join(folder, name), false)
      await trash.discard(join(folder, name))
    }
  }
  await trash.settled()
  await volumes.sweep()
  await rm(pool.downloads, { recursive: true, force: true })
  for (const folder of [pool.guests, pool.snapshots, pool.images, pool.trash]) await rmdir(folder)
  if (!config.device) return
  await unmount(pool.path)
  await rmdirIfEmpty(pool.path)
}

/** Resets the I/O scheduler of a loop device, because the next file on this device would otherwise inherit it. */
function unsetScheduler(device: string): void {
  setScheduler({ path: `/sys/block/${basename(device)}` }, 'none')
}

async function removeLoopFile(file: string): Promise<void> {
  if (await exists(file)) for (const device of await findLoops(file)) await detachLoop(device)
  for (const path of [file, unfinished(file)]) await rm(path, { force: true })
}

async function rmdirIfEmpty(directory: string): Promise<void> {
  await rmdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (!['ENOENT', 'ENOTEMPTY'].includes(error.code ?? '')) throw error
  })
}
