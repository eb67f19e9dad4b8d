import { chmod, mkdir, open, readdir, realpath, rename, rm, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { BtrfsView, format } from '../host/disk/btrfs.js'
import { findLoops, readBackingFile, useDirectIo } from '../host/disk/loop.js'
import { exists, findMount, mount, readSignatures } from '../host/disk/mount.js'
import { planPool, type PoolHave, type PoolStep, type PoolWant } from './plan.js'
import { ensureQuota, poolLabel, type Quota } from './quota.js'

export type StorageConfig = AgentConfig['storage']

/** The mounted storage pool, with quotas and folders. */
export interface Pool {
  readonly path: string
  /** Directory of images: read-only subvolumes, named by template id. Names of unfinished images begin with a dot. */
  readonly images: string
  /** Directory of guests' volumes, named by uuid. `UUID.next`: a prepared volume, or the old one after an exchange. */
  readonly guests: string
  /** Directory of snapshots: a directory for each guest's uuid, with read-only subvolumes named by snapshot id. */
  readonly snapshots: string
  /** Directory of image files that are being downloaded. */
  readonly downloads: string
  /** Directory of subvolumes that wait for their deletion. */
  readonly trash: string
  readonly view: BtrfsView
  readonly quota: Quota
}

export interface PoolCapacity {
  readonly totalBytes: number
  readonly usedBytes: number
}

/** Minimum size of a loop file in bytes. A smaller file has no space for a guest. */
const minLoopBytes = 1024 ** 3
const mountOptions = ['noatime', 'discard=async'] // discard: space freed in the pool is also freed in the loop file

/**
 * Creates the pool if it does not exist, and mounts it if it is not mounted. Can be interrupted at any point and
 * repeated.
 * @throws {BerthError} `storage_unusable` if something else is mounted or stored at the pool's path
 */
export async function openPool(config: StorageConfig): Promise<Pool> {
  const want = await resolveWant(config)
  const plan = planPool(want, await readHave(want))
  if ('refuse' in plan) throw unusable(plan.refuse)
  await mkdir(want.pool, { recursive: true, mode: 0o711 })
  for (const step of plan.steps) await applyStep(step, config.loop_size_gb)
  return preparePool(want.pool)
}

/** Reads the pool's size and use. Space that the filesystem of the loop file cannot provide counts as used. */
export async function readCapacity(pool: Pool, config: StorageConfig): Promise<PoolCapacity> {
  const inner = await statfs(pool.path)
  const totalBytes = inner.blocks * inner.bsize
  const freeBytes = Math.min(inner.bavail * inner.bsize, await growableBytes(config.loop_file))
  return { totalBytes, usedBytes: Math.max(0, totalBytes - freeBytes) }
}

/** Returns how many bytes of a sparse file's holes fit on its disk. Infinity: all fit, or the file does not exist. */
async function growableBytes(file: string): Promise<number> {
  try {
    const [{ size, blocks }, outer] = await Promise.all([stat(file), statfs(dirname(file))])
    const holes = size - blocks * 512
    const room = outer.bavail * outer.bsize
    return holes <= room ? Infinity : room
  } catch {
    return Infinity
  }
}

/** Resolves symbolic links in the device's path. @throws {BerthError} `storage_unusable` if the device is missing */
export async function resolveWant(config: StorageConfig): Promise<PoolWant> {
  const device = config.device && (await realpath(config.device).catch(() => ''))
  if (config.device && !device) throw unusable(`storage.device ${config.device} does not exist`)
  return { pool: config.pool, device, loopFile: config.loop_file }
}

async function readHave(want: PoolWant): Promise<PoolHave> {
  const mounted = await findMount(want.pool)
  const source = want.device || want.loopFile
  const sourceExists = await exists(source)
  const view = mounted?.fsType === 'btrfs' ? await BtrfsView.find(mounted.source) : undefined
  return {
    mount: mounted,
    mountBackingFile: mounted && (await readBackingFile(mounted.source)),
    mountHasDevice: want.device !== '' && ((await view?.hasDevice(want.device)) ?? false),
    directoryUsed: !mounted && (await isUsed(want.pool)),
    loopFileExists: await exists(want.loopFile),
    signatures: !mounted && sourceExists ? await readSignatures(source) : [],
  }
}

async function applyStep(step: PoolStep, loopSizeGb: number): Promise<void> {
  switch (step.op) {
    case 'createLoopFile':
      return createLoopFile(step.file, loopSizeGb)
    case 'format':
      return format(step.path, poolLabel)
    case 'mount':
      return mountPool(step)
  }
}

/** Creates the file under a temporary name and renames it, so that a loop file is always complete. */
async function createLoopFile(file: string, sizeGb: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o711 })
  const temporary = unfinished(file)
  await rm(temporary, { force: true })
  const handle = await open(temporary, 'wx', 0o600)
  try {
    await handle.truncate(await loopBytes(file, sizeGb))
    await format(temporary, poolLabel)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(temporary, file)
}

async function loopBytes(file: string, sizeGb: number): Promise<number> {
  if (sizeGb > 0) return sizeGb * 1024 ** 3
  const outer = await statfs(dirname(file))
  const bytes = Math.floor((outer.bavail * outer.bsize * 0.9) / 2 ** 20) * 2 ** 20
  if (bytes < minLoopBytes)
    throw unusable(`the storage pool cannot be created: less than 1.2 GB is free in ${dirname(file)}`)
  return bytes
}

async function mountPool(step: { source: string; target: string; loop: boolean }): Promise<void> {
  await mount(step.source, step.target, {
    type: 'btrfs',
    options: step.loop ? ['loop', ...mountOptions] : mountOptions,
  })
  if (step.loop) await Promise.all((await findLoops(step.source)).map(useDirectIo))
}

async function preparePool(path: string): Promise<Pool> {
  const mounted = await findMount(path)
  const view = mounted && (await BtrfsView.find(mounted.source))
  if (!view) throw unusable(`the storage pool is not mounted as btrfs at ${path}`)
  const pool = {
    path,
    view,
    quota: await ensureQuota(path, view),
    images: join(path, 'images'),
    guests: join(path, 'guests'),
    snapshots: join(path, 'snapshots'),
    downloads: join(path, 'downloads'),
    trash: join(path, 'trash'),
  }
  for (const folder of [pool.images, pool.guests, pool.snapshots, pool.downloads, pool.trash])
    await ensureFolder(folder)
  return pool
}

/** Creates a folder that only root can enter, because setuid files of guests would take effect on the host. */
async function ensureFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  await chmod(path, 0o700)
}

async function isUsed(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).length > 0
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/** Temporary name of an incomplete loop file. */
export const unfinished = (file: string): string => `${file}.new`
const unusable = (why: string): BerthError => new BerthError('unavailable', 'storage_unusable', why)
