import { mkdir, rmdir } from 'node:fs/promises'
import { relative } from 'node:path'
import { conflict } from '../../shared/errors.js'
import { isReadOnly, syncFilesystem } from '../host/disk/btrfs.js'
import { joinGroup } from '../host/disk/btrfs-ioctl.js'
import { receiveSubvolume, sendSubvolume, type ReceiveProcess, type SendProcess } from '../host/disk/btrfs-stream.js'
import { exists } from '../host/disk/mount.js'
import { Bounds } from './bounds.js'
import { storageError } from './errors.js'
import { namesIn, type VolumePlaces } from './volume-places.js'
import type { Pool } from './pool.js'
import type { Trash } from './trash.js'

/** Sends and receives snapshots of guests that move between hosts. */
export class DiskTransfers {
  readonly #bounds: Bounds
  /** Running programs that send snapshots, by guest. */
  readonly #sending = new Map<string, Set<SendProcess>>()

  constructor(
    private readonly pool: Pool,
    private readonly trash: Trash,
    private readonly places: VolumePlaces,
  ) {
    this.#bounds = new Bounds(pool)
  }

  /** Reads a snapshot as a stream. @param parent a snapshot that the receiver has; only the difference to it is sent */
  send(guest: string, id: string, parent?: string): SendProcess {
    const { places } = this
    const from = parent === undefined ? undefined : places.snapshotPathOf(guest, parent)
    const process = sendSubvolume(places.snapshotPathOf(guest, id), from)
    const sending = this.#sending.get(guest) ?? new Set()
    this.#sending.set(guest, sending.add(process))
    const ended = (): void => {
      sending.delete(process)
      if (sending.size === 0 && this.#sending.get(guest) === sending) this.#sending.delete(guest)
    }
    process.ended.then(ended, ended)
    return process
  }

  /** Ends the programs that read snapshots of the guest: btrfs deletes no subvolume that is being sent. */
  async endSends(guest: string): Promise<void> {
    const sending = [...(this.#sending.get(guest) ?? [])]
    for (const process of sending) process.kill()
    await Promise.all(sending.map(({ ended }) => ended.catch(() => undefined)))
  }

  /** Receives a snapshot. First removes what an earlier attempt left. Call `confirm` when the stream has ended. */
  async receive(guest: string, id: string): Promise<ReceiveProcess> {
    const directory = this.places.snapshotsOf(guest)
    await mkdir(directory, { recursive: true, mode: 0o700 })
    if (await exists(this.places.snapshotPathOf(guest, id))) await this.trash.destroy(directory, [id])
    return receiveSubvolume(directory)
  }

  /**
   * Makes a received snapshot durable. With simple quotas, also counts it towards the guest's disk limit.
   * @throws {BerthError} `bad_stream` if the stream did not contain exactly this snapshot
   */
  async confirm(guest: string, id: string): Promise<void> {
    const path = this.places.snapshotPathOf(guest, id)
    if (!(await exists(path)) || !(await isReadOnly(path)))
      throw conflict('bad_stream', 'the other host did not send exactly the snapshot that it announced')
    const group = this.#bounds.findGroup(guest)
    try {
      if (group) await joinGroup(path, group)
      await syncFilesystem(this.pool.path)
    } catch (error) {
      throw storageError(error, `receive ${relative(this.pool.path, path)}`)
    }
  }

  /**
   * Returns the pool space in bytes of data that was received for a guest that this host does not have. With simple
   * quotas, it includes deleted data until the kernel frees it. With classic quotas, it is the size of the snapshot.
   */
  async countReceived(guest: string, id: string): Promise<number> {
    if (!this.#bounds.countSnapshots) return this.#bounds.measure(this.places.snapshotPathOf(guest, id))
    return (await this.#bounds.usage([guest])).get(guest) ?? 0
  }

  /**
   * Returns the ids of the guest's complete snapshots. Removes everything else in their directory.
   * @param confirmed ids of snapshots for which `confirm` has succeeded
   */
  async listComplete(guest: string, confirmed: ReadonlySet<string>): Promise<string[]> {
    const valid = new Set(await this.places.listSnapshots(guest))
    const directory = this.places.snapshotsOf(guest)
    const complete: string[] = []
    for (const name of await namesIn(directory))
      if (valid.has(name) && confirmed.has(name)) complete.push(name)
      else await this.trash.destroy(directory, [name])
    return complete
  }

  /** Removes everything that was received for a guest that this host does not have. */
  async discard(guest: string): Promise<void> {
    await this.listComplete(guest, new Set())
    await rmdir(this.places.snapshotsOf(guest)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT' && error.code !== 'ENOTEMPTY') throw error
    })
  }
}
