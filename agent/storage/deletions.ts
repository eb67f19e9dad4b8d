import { readdir } from 'node:fs/promises'
import { listDeletedSubvolumes } from '../host/disk/btrfs.js'
import { commitTransaction } from '../host/disk/btrfs-ioctl.js'
import type { Pool } from './pool.js'

/**
 * Tracks whether the kernel has freed the space of guests' deleted subvolumes. The kernel frees it some time after the
 * deletion. Until then, the space counts towards the guest's limit.
 */
export class Deletions {
  readonly #pool: Pool
  /** For each guest: ids of deleted subvolumes that may belong to the guest and were not freed at the last check. */
  readonly #pending = new Map<string, readonly number[]>()
  #noted = 0

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** Records a deletion. Call it after a subvolume of the guest was deleted or moved to the trash. */
  note(guest: string): void {
    this.#noted++
    this.#pending.delete(guest)
  }

  /**
   * Returns true if the kernel has freed the space of the guest's deleted subvolumes. Otherwise makes the kernel start
   * to free it. The first call after a deletion checks the deleted subvolumes of the whole pool, because a deleted
   * subvolume does not show to which guest it belonged.
   */
  async areFreed(guest: string): Promise<boolean> {
    if (this.#pending.get(guest)?.length === 0) return true
    if (await this.#isInTrash(guest)) return false
    const noted = this.#noted
    await commitTransaction(this.#pool.trash)
    const present = await listDeletedSubvolumes(this.#pool.path)
    const known = this.#pending.get(guest)
    const left = present.filter((id) => known?.includes(id) ?? true)
    if (left.length === 0) await commitTransaction(this.#pool.trash) // a second commit frees the last extents
    if (noted !== this.#noted) return false
    this.#pending.set(guest, left)
    return left.length === 0
  }

  async #isInTrash(guest: string): Promise<boolean> {
    return (await readdir(this.#pool.trash)).some((name) => name.startsWith(guest))
  }
}
