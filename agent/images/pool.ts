import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isCustomImageId } from '../../shared/image-rules.js'
import { listSubvolumes } from '../host/disk/btrfs.js'
import { exists } from '../host/disk/mount.js'
import { buildImage } from './build.js'
import { findRecipe, type CatalogEntry } from './catalog.js'
import { buildDisk } from './build-disk.js'
import { installCd } from './disks/install-cd.js'
import { installDisk } from './disks/install-disk.js'
import { installArchive, type InstallParts } from './install.js'
import { sweepWork, type BuildContext } from './publish.js'
import { discardFetched, fetchImage, sweepFetched, type FetchParts } from './fetch.js'

export interface ImagePool {
  has(id: string): Promise<boolean>
  readSize(id: string): Promise<number>
  /** Creates an image. If its download is aborted, the received part stays for the next attempt. */
  make(entry: CatalogEntry, making: BuildContext): Promise<void>
  /** Removes the image. Guests that were created from it are not affected. */
  remove(id: string): Promise<void>
  discardFetched(id: string): Promise<void>
  /** Removes the files of unfinished images. Call it only while no image is being created. */
  sweep(kept: SweepRules): Promise<void>
}

/** Rules for the files that a sweep must keep. */
export interface SweepRules {
  /** True for an image whose download will be continued. Its downloaded files must be kept. */
  readonly isWanted: (id: string) => boolean
  /** True if the template exists, either in the catalogue or as a custom template. */
  readonly isKnown: (id: string) => boolean
}

export interface PoolImagesParts extends InstallParts {
  readonly mirror: string
  readonly fetch: FetchParts
}

/** Stores images as read-only subvolumes of the storage pool. */
export class PoolImages implements ImagePool {
  constructor(private readonly parts: PoolImagesParts) {}

  has(id: string): Promise<boolean> {
    return exists(join(this.parts.pool.images, id))
  }

  async readSize(id: string): Promise<number> {
    const { pool } = this.parts
    const subvolume = (await listSubvolumes(pool.path)).find(({ path }) => path.endsWith(`images/${id}`))
    return (subvolume && (await pool.view.referencedBytes(`0/${subvolume.id}`))) ?? 0
  }

  async make(entry: CatalogEntry, making: BuildContext): Promise<void> {
    const recipe = findRecipe(entry)
    const { virtualization: type } = entry
    if (recipe) return (type === 'lxc' ? buildImage : buildDisk)(this.parts, recipe, making)
    const install = type === 'iso' ? installCd : type === 'lxc' ? installArchive : installDisk
    return makeFetched(entry, this.parts.fetch, making, (archive) => install(this.parts, { ...entry, archive }, making))
  }

  async remove(id: string): Promise<void> {
    const { pool, trash } = this.parts
    if (await this.has(id)) await trash.discard(join(pool.images, id))
  }

  discardFetched(id: string): Promise<void> {
    return discardFetched(this.parts.fetch, id)
  }

  async sweep({ isWanted, isKnown }: SweepRules): Promise<void> {
    await sweepWork(this.parts)
    await sweepFetched(this.parts.fetch, isWanted)
    const names = await readdir(this.parts.pool.images)
    for (const id of names) if (isCustomImageId(id) && !isKnown(id)) await this.remove(id)
  }
}

/** Downloads a file and creates an image from it. Deletes the file afterwards, unless the download was aborted. */
export async function makeFetched(
  entry: CatalogEntry,
  parts: FetchParts,
  making: BuildContext,
  install: (archive: string) => Promise<void>,
): Promise<void> {
  const { source } = entry
  if (source.kind === 'built') throw new Error(`image ${entry.id} is built on the host, not downloaded`)
  try {
    await install(await fetchImage(entry, source, parts, making))
  } catch (error) {
    if (!making.signal.aborted) await discardFetched(parts, entry.id)
    throw error
  }
  await discardFetched(parts, entry.id)
}
