import { join } from 'node:path'
import { listSubvolumes } from '../host/btrfs.js'
import { exists } from '../host/mount.js'
import type { Pool } from '../storage/pool.js'
import type { Trash } from '../storage/trash.js'
import { buildImage, sweepBuilds, type BuildParts, type Report } from './build.js'
import type { CatalogEntry } from './catalog.js'

/** Where images are made and kept. */
export interface ImagePool {
  has(id: string): Promise<boolean>
  /** In bytes. */
  readSize(id: string): Promise<number>
  /** The image is whole when it is there. */
  build(entry: CatalogEntry, report: Report, signal: AbortSignal): Promise<void>
  /** Throws away unfinished builds; none may run. */
  sweep(): Promise<void>
}

export interface PoolImagesParts {
  readonly pool: Pool
  readonly trash: Trash
  readonly mirror: string
}

/** Images as read-only subvolumes of the storage pool. */
export class PoolImages implements ImagePool {
  readonly #build: BuildParts

  constructor(private readonly parts: PoolImagesParts) {
    this.#build = parts
  }

  has(id: string): Promise<boolean> {
    return exists(join(this.parts.pool.images, id))
  }

  async readSize(id: string): Promise<number> {
    const { pool } = this.parts
    const subvolume = (await listSubvolumes(pool.path)).find(({ path }) => path.endsWith(`images/${id}`))
    return (subvolume && (await pool.view.referencedBytes(`0/${subvolume.id}`))) ?? 0
  }

  build(entry: CatalogEntry, report: Report, signal: AbortSignal): Promise<void> {
    return buildImage(this.#build, entry, report, signal)
  }

  sweep(): Promise<void> {
    return sweepBuilds(this.#build)
  }
}
