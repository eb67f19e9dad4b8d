import { mkdir, rmdir } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { conflict } from '../../shared/errors.js'
import {
  createSubvolumeInGroup,
  exchangeSubvolumes,
  setLimit,
  snapshotSubvolume,
  type ExchangeResult,
} from '../host/disk/btrfs-ioctl.js'
import { exists } from '../host/disk/mount.js'
import { CommandError } from '../host/process/process.js'
import { Bounds } from './bounds.js'
import { Deletions } from './deletions.js'
import { storageError } from './errors.js'
import type { Pool } from './pool.js'
import type { Trash } from './trash.js'
import { isTemplateId, VolumePlaces } from './volume-places.js'

/** The source of a new volume: an image, a snapshot, or `empty` for a volume without content. */
export type VolumeSource = ClonedSource | { readonly empty: true }
type ClonedSource = { readonly templateId: string } | { readonly snapshot: string }

export interface SnapshotTaken {
  /** False if the snapshot already existed. */
  readonly made: boolean
  /** Bytes that counted towards the guest's limit right after the snapshot. Undefined: quotas do not report them. */
  readonly sizeBytes: number | undefined
  /** Upper bound of the bytes that all snapshots of the guest retain. */
  readonly retainedBytes: number
}

export interface SnapshotOptions {
  /** Upper bound of the bytes that all earlier snapshots of the guest retain. */
  readonly retainedBytes?: number
  /** New disk limit of the guest, set together with the snapshot. Undefined: unchanged. Only for simple quotas. */
  readonly limitBytes?: number
}

/**
 * Manages guests' volumes. Each volume is a subvolume that the driver uses as a root filesystem or as the place of a
 * disk image. Every method can be repeated, even after a kill at any point. Each caller decides if the guest is allowed
 * to run during the call. Limits are in bytes; 0 means unlimited.
 */
export class Volumes extends VolumePlaces {
  readonly #trash: Trash
  readonly #bounds: Bounds
  readonly #deletions: Deletions
  /** Number of running calls that create a subvolume, by guest. `sweep` keeps the quota groups of these guests. */
  readonly #inWork = new Map<string, number>()

  constructor(pool: Pool, trash: Trash) {
    super(pool)
    this.#trash = trash
    this.#bounds = new Bounds(pool)
    this.#deletions = new Deletions(pool)
  }

  /** Clones the guest's volume from a template's image. If the volume exists, only its limit is set. */
  async clone(guest: string, templateId: string, limitBytes: number): Promise<void> {
    const path = this.pathOf(guest)
    await this.#working(
      guest,
      `create the disk of the guest ${guest} from the image of template ${templateId}`,
      async () => {
        const found = await exists(path)
        const made = !found && (await this.#make(guest, guest, { source: { templateId }, limitBytes }))
        if (!made) await this.#bounds.set(guest, path, limitBytes)
      },
    )
  }

  /** Creates a volume next to the guest's volume, for `exchange`. Replaces a volume that was prepared before. */
  async prepare(guest: string, source: VolumeSource, limitBytes: number): Promise<void> {
    await this.#working(guest, `prepare a new disk for the guest ${guest}`, async () => {
      do await this.discardNext(guest)
      while (!(await this.#make(guest, basename(this.nextPathOf(guest)), { source, limitBytes })))
    })
  }

  /**
   * Creates a rescue system next to the guest's volume, and replaces an existing one. The rescue system has its own
   * limit, so that it can write even if the guest's disk is full.
   */
  async prepareRescue(guest: string, templateId: string, limitBytes: number): Promise<void> {
    const target = { directory: this.pool.guests, name: basename(this.rescuePathOf(guest)), readOnly: false }
    await this.#working(guest, `create a rescue system for the guest ${guest}`, async () => {
      await this.discardRescue(guest)
      await snapshotSubvolume(await this.#findSource(guest, { templateId }), target)
      await setLimit(this.rescuePathOf(guest), limitBytes)
    })
  }

  /** Discards the volume that was prepared for `exchange`. @returns true if it existed */
  async discardNext(guest: string): Promise<boolean> {
    const found = await this.#discard(this.nextPathOf(guest))
    if (found) this.#deletions.note(guest)
    return found
  }

  /** Discards the guest's rescue system. @returns true if it existed */
  discardRescue(guest: string): Promise<boolean> {
    return this.#discard(this.rescuePathOf(guest))
  }

  async #discard(path: string): Promise<boolean> {
    const found = await exists(path)
    if (found) await this.#trash.discard(path)
    return found
  }

  /**
   * Replaces the guest's volume with the prepared one and moves the old one to the trash. The exchange is atomic and
   * synced: if the agent or the power fails, the guest has either the old or the new volume. The guest must be stopped.
   * @returns `exchanged`; `done` if an earlier call exchanged the volumes; `nothing` if no volume is prepared
   */
  async exchange(guest: string): Promise<ExchangeResult> {
    return this.#working(guest, `replace the disk of the guest ${guest}`, async () => {
      const names = { current: basename(this.pathOf(guest)), next: basename(this.nextPathOf(guest)) }
      const result = await exchangeSubvolumes(this.pool.guests, names)
      this.#bounds.forget(guest)
      await this.discardNext(guest)
      return result
    })
  }

  /** True if the guest has a volume. Ignores prepared volumes. */
  has(guest: string): Promise<boolean> {
    return exists(this.pathOf(guest))
  }

  /** Restores the volume from the snapshot. The guest must be stopped. After a failure, the volume is unchanged. */
  async restore(guest: string, snapshot: string, limitBytes: number): Promise<void> {
    await this.prepare(guest, { snapshot }, limitBytes)
    await this.exchange(guest)
  }

  /**
   * Takes a read-only snapshot of the guest's volume. Unless the caller froze the guest, the snapshot has the state
   * that a power loss would leave.
   * @param id unique for the guest; letters, digits and `-`
   * @throws {BerthError} `volume_missing`, `storage_full`
   */
  async snapshot(
    guest: string,
    id: string,
    { retainedBytes: before = 0, limitBytes }: SnapshotOptions = {},
  ): Promise<SnapshotTaken> {
    let retained = before
    const made = await this.#working(guest, `take the snapshot ${id} of the guest ${guest}`, async () => {
      if (await exists(this.snapshotPathOf(guest, id))) return false
      if (!(await exists(this.pathOf(guest)))) throw conflict('volume_missing', 'the guest has no disk')
      if (!this.snapshotsCount) retained = await this.#bounds.expectedRetained(guest, before, { sync: true })
      const directory = this.snapshotsOf(guest)
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const target = { directory, name: id, readOnly: true }
      await snapshotSubvolume(this.pathOf(guest), target, this.#bounds.findGroup(guest, limitBytes))
      return true
    })
    const sizeBytes = (await this.#bounds.usage([guest])).get(guest)
    const retainedBytes = this.snapshotsCount ? (sizeBytes ?? before) : retained
    return { made, sizeBytes, retainedBytes }
  }

  /** True if the space of snapshots counts towards the guest's limit. */
  get snapshotsCount(): boolean {
    return this.#bounds.countSnapshots
  }

  /**
   * Returns an upper bound of the bytes that all snapshots of the guest could retain if another snapshot were taken
   * now.
   * @param retainedBytes bytes that the existing snapshots retain
   */
  expectedRetained(guest: string, retainedBytes: number): Promise<number> {
    return this.#bounds.expectedRetained(guest, retainedBytes)
  }

  /** Returns the bytes that the deletion of this snapshot would free. 0: the quotas do not report them. */
  exclusiveBytes(guest: string, id: string): Promise<number> {
    const path = relative(this.pool.path, this.snapshotPathOf(guest, id))
    return this.#bounds.exclusiveBytes(path)
  }

  /** True if the guest's deleted snapshots and volumes no longer count towards its limit. */
  async areFreed(guest: string): Promise<boolean> {
    return !this.snapshotsCount || this.#deletions.areFreed(guest)
  }

  /** Deletes a snapshot. Volumes that were restored from it keep the shared data. @returns true if it existed */
  async deleteSnapshot(guest: string, id: string): Promise<boolean> {
    const found = await exists(this.snapshotPathOf(guest, id))
    if (found) await this.#destroySnapshots(guest, [id])
    return found
  }

  async resize(guest: string, limitBytes: number): Promise<void> {
    await this.#bounds.set(guest, this.pathOf(guest), limitBytes)
  }

  /**
   * Removes the guest's volumes and snapshots from the pool. The guest's volume is removed last, so that until then
   * `list` still finds the guest.
   */
  async remove(guest: string): Promise<void> {
    const snapshots = await this.listSnapshots(guest)
    if (snapshots.length > 0) await this.#destroySnapshots(guest, snapshots)
    await this.removeDisk(guest)
  }

  /** Removes the guest's volumes from the pool, and keeps its snapshots. */
  async removeDisk(guest: string): Promise<void> {
    const path = this.pathOf(guest)
    this.#bounds.forget(guest)
    await this.discardNext(guest)
    await this.discardRescue(guest)
    if (await exists(path)) await this.#trash.discard(path)
  }

  /** Returns how many bytes of the volume that `prepare` created would count towards the guest's limit. */
  async measureNext(guest: string): Promise<number> {
    return this.#bounds.measure(this.nextPathOf(guest))
  }

  /** Returns the bytes that count towards each guest's limit. @param guests default: all guests with a volume */
  async usage(guests?: readonly string[]): Promise<Map<string, number>> {
    return this.#bounds.usage(guests ?? (await this.listVolumes()))
  }

  /**
   * Sets every limit on the host that differs from `limits`, because a power loss may have undone the last change.
   * Starts no process if no limit differs.
   * @param inTurn must lock the guest's mutex, and then call `set` with the limit that the guest has at that time
   * @returns the guests whose limit was wrong
   */
  async ensureLimits(
    limits: ReadonlyMap<string, number>,
    inTurn: (guest: string, set: (limitBytes: number) => Promise<void>) => Promise<void> = (guest, set) =>
      set(limits.get(guest)!),
  ): Promise<string[]> {
    const guests = await this.listVolumes()
    const found = await this.#bounds.limits(guests)
    const wrong = guests.filter((guest) => limits.has(guest) && found.get(guest) !== limits.get(guest))
    for (const guest of wrong) await inTurn(guest, (limitBytes) => this.resize(guest, limitBytes))
    return wrong
  }

  /** Empties the trash, and removes quota groups of deleted guests. Call it at the start and at intervals. */
  async sweep(): Promise<void> {
    await this.#trash.sweep()
    const inWork = [...this.#inWork.keys()] // `#inWork` can change during `list`, so it is read before and after it
    await this.#bounds.sweep([...(await this.list()), ...inWork, ...this.#inWork.keys()])
  }

  /** Creates a subvolume. @returns false if it exists, for example because a killed agent had created it */
  async #make(
    guest: string,
    name: string,
    { source, limitBytes }: { source: VolumeSource; limitBytes: number },
  ): Promise<boolean> {
    const target = { directory: this.pool.guests, name, readOnly: false }
    const group = this.#bounds.findGroup(guest, limitBytes)
    try {
      if ('empty' in source) await createSubvolumeInGroup(target, group)
      else await snapshotSubvolume(await this.#findSource(guest, source), target, group)
    } catch (error) {
      if (error instanceof CommandError && error.stderr === 'File exists\n') return false
      throw error
    }
    // With classic quotas, a snapshot always gets the limits of its source (btrfs_qgroup_inherit()).
    if (!group) await this.#bounds.set(guest, join(this.pool.guests, name), limitBytes)
    return true
  }

  async #findSource(guest: string, source: ClonedSource): Promise<string> {
    if ('snapshot' in source) {
      const path = this.snapshotPathOf(guest, source.snapshot)
      if (await exists(path)) return path
      throw conflict('snapshot_missing', `the guest has no snapshot ${source.snapshot} on this host`)
    }
    const { templateId } = source
    const path = join(this.pool.images, templateId)
    if (isTemplateId(templateId) && (await exists(path))) return path
    throw conflict('image_missing', `the image of template ${templateId} does not exist on this host`)
  }

  async #destroySnapshots(guest: string, ids: readonly string[]): Promise<void> {
    const directory = this.snapshotsOf(guest)
    await this.#trash.destroy(directory, ids).finally(() => this.#deletions.note(guest))
    await rmdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY') throw error
    })
  }

  /** Runs `work`. Protects the guest's quota group from `sweep` in this time. @throws the result of `storageError` */
  async #working<T>(guest: string, what: string, work: () => Promise<T>): Promise<T> {
    this.#inWork.set(guest, (this.#inWork.get(guest) ?? 0) + 1)
    try {
      return await work()
    } catch (error) {
      throw storageError(error, what)
    } finally {
      const left = this.#inWork.get(guest)! - 1
      if (left === 0) this.#inWork.delete(guest)
      else this.#inWork.set(guest, left)
    }
  }
}
