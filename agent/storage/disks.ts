import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { templateIdPattern, uuidPattern } from '../../shared/guest-rules.js'
import type { LxcDisks } from '../drivers/lxc/disks.js'
import { listSubvolumes, setLimit, snapshotSubvolume, type Qgroup } from '../host/btrfs.js'
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
      if (!(await exists(target))) await this.#snapshot(templateId, target)
      await setLimit(target, diskBytes)
    } catch (error) {
      throw storageError(error, `clone ${templateId} for ${guest}`)
    }
  }

  async #snapshot(templateId: string, target: string): Promise<void> {
    const source = join(this.#pool.images, templateId)
    if (!template.test(templateId) || !(await exists(source)))
      throw new BerthError('conflict', 'image_missing', `no image of template ${templateId} on this host`)
    await snapshotSubvolume(source, target)
  }

  /** Bounds an existing disk anew. */
  async resize(guest: string, diskBytes: number): Promise<void> {
    await setLimit(this.rootfsPath(guest), diskBytes)
  }

  async remove(guest: string): Promise<void> {
    const path = this.rootfsPath(guest)
    this.#subvolumeIds.delete(guest)
    if (!(await exists(path))) return
    await this.#trash.discard(path)
  }

  async list(): Promise<string[]> {
    return (await readdir(this.#pool.guests)).filter((name) => uuid.test(name))
  }

  async usage(): Promise<Map<string, number>> {
    return this.#figures('referencedBytes')
  }

  /**
   * Sets every disk's bound that is not as told: a bound set right before a power loss may be gone while the
   * clone is there. Converged, it starts no process.
   * @returns the guests whose bound was wrong
   */
  async ensureLimits(limits: ReadonlyMap<string, number>): Promise<string[]> {
    const found = await this.#figures('limitBytes')
    const wrong = [...limits].filter(([guest, bytes]) => found.has(guest) && found.get(guest) !== bytes)
    for (const [guest, bytes] of wrong) await this.resize(guest, bytes)
    return wrong.map(([guest]) => guest)
  }

  async #figures(key: keyof Qgroup): Promise<Map<string, number>> {
    const guests = await this.list()
    if (guests.some((guest) => !this.#subvolumeIds.has(guest))) await this.#readIds()
    const figures = new Map<string, number>()
    await Promise.all(
      guests.map(async (guest) => {
        const qgroup = await this.#qgroup(guest)
        if (qgroup) figures.set(guest, qgroup[key])
      }),
    )
    return figures
  }

  async #qgroup(guest: string): Promise<Qgroup | undefined> {
    const id = this.#subvolumeIds.get(guest)
    const qgroup = id === undefined ? undefined : await this.#pool.view.qgroup(id)
    if (!qgroup) this.#subvolumeIds.delete(guest) // removed or made anew meanwhile: the next call looks again
    return qgroup
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
