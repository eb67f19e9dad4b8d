import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { templateIdPattern, uuidPattern } from '../../shared/guest-rules.js'
import type { LxcDisks } from '../drivers/lxc/disks.js'
import { listSubvolumes, setLimit } from '../host/btrfs.js'
import { snapshotWithLimit } from '../host/btrfs-ioctl.js'
import { exists } from '../host/mount.js'
import { storageError } from './errors.js'
import type { Pool } from './pool.js'
import type { Trash } from './trash.js'

const uuid = new RegExp(uuidPattern)
const template = new RegExp(templateIdPattern)
const guestPath = /(?:^|\/)guests\/([0-9a-f-]{36})$/

/** Guests' root filesystems as subvolumes of the pool, each bounded by its qgroup. */
export class BtrfsDisks implements LxcDisks {
  readonly #pool: Pool
  readonly #trash: Trash
  /** Of the subvolume that now has the uuid's name. */
  readonly #subvolumeIds = new Map<string, number>()

  constructor(pool: Pool, trash: Trash) {
    this.#pool = pool
    this.#trash = trash
  }

  rootfsPath(guest: string): string {
    if (!uuid.test(guest)) throw new BerthError('invalid', 'invalid_field', `not a uuid: ${guest}`)
    return join(this.#pool.guests, guest)
  }

  async clone(guest: string, templateId: string, diskBytes: number): Promise<void> {
    const target = this.rootfsPath(guest)
    try {
      const repeated = await exists(target)
      if (!repeated) await this.#snapshot(guest, templateId, diskBytes)
      // With classic quotas a snapshot gets the bounds of its source, whatever it is told (btrfs_qgroup_inherit()).
      if (repeated || this.#pool.quota === 'classic') await setLimit(target, diskBytes)
    } catch (error) {
      throw storageError(error, `clone ${templateId} for ${guest}`)
    }
  }

  async #snapshot(guest: string, templateId: string, diskBytes: number): Promise<void> {
    const source = join(this.#pool.images, templateId)
    if (!template.test(templateId) || !(await exists(source)))
      throw new BerthError('conflict', 'image_missing', `no image of template ${templateId} on this host`)
    await snapshotWithLimit(source, { directory: this.#pool.guests, name: guest }, diskBytes)
  }

  /** Bounds an existing disk anew. */
  async resize(guest: string, diskBytes: number): Promise<void> {
    await setLimit(this.rootfsPath(guest), diskBytes)
  }

  async remove(guest: string): Promise<void> {
    const path = this.rootfsPath(guest)
    this.#subvolumeIds.delete(guest)
    if (await exists(path)) await this.#trash.discard(path)
  }

  async list(): Promise<string[]> {
    return (await readdir(this.#pool.guests)).filter((name) => uuid.test(name))
  }

  async usage(): Promise<Map<string, number>> {
    return this.#figures((id) => this.#pool.view.referencedBytes(id))
  }

  /**
   * Sets every disk's bound that is not as told: one changed right before a power loss may be the old one.
   * Converged, it starts no process.
   * @returns the guests whose bound was wrong
   */
  async ensureLimits(limits: ReadonlyMap<string, number>): Promise<string[]> {
    const found = await this.#figures((id) => this.#pool.view.limitBytes(id))
    const wrong = [...limits].filter(([guest, bytes]) => found.has(guest) && found.get(guest) !== bytes)
    for (const [guest, bytes] of wrong) await this.resize(guest, bytes)
    return wrong.map(([guest]) => guest)
  }

  async #figures(read: (subvolumeId: number) => Promise<number | undefined>): Promise<Map<string, number>> {
    const guests = await this.list()
    if (guests.some((guest) => !this.#subvolumeIds.has(guest))) await this.#readIds()
    const figures = new Map<string, number>()
    await Promise.all(
      guests.map(async (guest) => {
        const id = this.#subvolumeIds.get(guest)
        const figure = id === undefined ? undefined : await read(id)
        if (figure !== undefined) figures.set(guest, figure)
        else this.#subvolumeIds.delete(guest) // removed or made anew meanwhile: the next call looks again
      }),
    )
    return figures
  }

  async #readIds(): Promise<void> {
    const subvolumes = await listSubvolumes(this.#pool.path)
    this.#subvolumeIds.clear()
    for (const { id, path } of subvolumes) {
      const guest = guestPath.exec(path)?.[1]
      if (guest) this.#subvolumeIds.set(guest, id)
    }
  }
}
