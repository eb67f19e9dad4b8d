import { listSubvolumes, syncFilesystem } from '../host/disk/btrfs.js'
import { joinGroup, readSubvolumeId, removeEmptyGroups, setLimit, type BoundedGroup } from '../host/disk/btrfs-ioctl.js'
import type { Pool } from './pool.js'

/** Level of the agent's quota groups. Other programs can use any level above 0, but hardly any use one this high. */
const groupLevel = 190
const levelShift = 48n
const volumePath = /(?:^|\/)guests\/([0-9a-f-]{36})$/

/**
 * Limits the space of each guest in the pool (docs/design/storage.md). With simple quotas, each guest has a quota
 * group. The group counts the data that the guest's volumes wrote, until no subvolume uses the data any more. With
 * classic quotas, the limit applies to all data that the guest's present volume references.
 */
export class Bounds {
  readonly #pool: Pool
  /** For each guest: id of the subvolume of its present volume. Only used with classic quotas. */
  readonly #subvolumeIds = new Map<string, number>()

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** Returns the quota group for new subvolumes of the guest; undefined if the pool has classic quotas (quota.ts). */
  findGroup(guest: string, limitBytes?: number): BoundedGroup | undefined {
    if (this.#pool.quota === 'classic') return undefined
    const id = groupIdOf(guest)
    return limitBytes === undefined ? { id } : { id, limitBytes }
  }

  /** Sets the guest's limit. @param path path of the guest's volume @param limitBytes limit in bytes; 0: unlimited */
  async set(guest: string, path: string, limitBytes: number): Promise<void> {
    const group = this.findGroup(guest, limitBytes)
    await (group ? joinGroup(path, group) : setLimit(path, limitBytes))
  }

  /** Returns the bytes that count towards each guest's limit. Omits guests without a quota group. */
  async usage(guests: readonly string[]): Promise<Map<string, number>> {
    return this.#figures(guests, (group) => this.#pool.view.countedBytes(group))
  }

  /** True if the space of snapshots counts towards the guest's limit. */
  get countSnapshots(): boolean {
    return this.#pool.quota === 'simple'
  }

  /**
   * Returns an upper bound of the bytes that all snapshots of the guest could retain if another snapshot were taken
   * now. With simple quotas, this is all data that counts towards the guest's limit. With classic quotas, this is
   * `retainedBytes` plus the exclusive bytes of the volume.
   * @param retainedBytes bytes that the existing snapshots retain
   * @param options `sync`: with classic quotas, also counts data that is not on the disk yet
   */
  async expectedRetained(
    guest: string,
    retainedBytes: number,
    { sync = false }: { readonly sync?: boolean } = {},
  ): Promise<number> {
    if (this.countSnapshots) return (await this.usage([guest])).get(guest) ?? retainedBytes
    if (sync) await syncFilesystem(this.#pool.path)
    const read = (group: string): Promise<number | undefined> => this.#pool.view.exclusiveBytes(group)
    return retainedBytes + ((await this.#figures([guest], read)).get(guest) ?? 0)
  }

  /**
   * Returns the bytes that only this snapshot references; 0 with simple quotas, which do not count them.
   * @param path path relative to the pool
   */
  async exclusiveBytes(path: string): Promise<number> {
    if (this.countSnapshots) return 0
    const found = (await listSubvolumes(this.#pool.path)).find((subvolume) => subvolume.path.endsWith(path))
    return (found && (await this.#pool.view.exclusiveBytes(`0/${found.id}`))) ?? 0
  }

  /** Writes all data to the disk and returns the bytes that the subvolume references. */
  async measure(path: string): Promise<number> {
    await syncFilesystem(this.#pool.path)
    return (await this.#pool.view.referencedBytes(`0/${await readSubvolumeId(path)}`)) ?? 0
  }

  /** Returns the limit of each guest in bytes. 0: unlimited. */
  async limits(guests: readonly string[]): Promise<Map<string, number>> {
    return this.#figures(guests, (group) => this.#pool.view.limitBytes(group))
  }

  /** Forgets the id of the guest's volume. Call it after the volume was replaced or removed. */
  forget(guest: string): void {
    this.#subvolumeIds.delete(guest)
  }

  /** Removes the quota groups of all guests except `guests`. Keeps groups with subvolumes that are being deleted. */
  async sweep(guests: readonly string[]): Promise<void> {
    if (this.#pool.quota === 'classic') return
    const kept = new Set(guests.map((guest) => groupIdOf(guest)))
    const found = (await this.#pool.view.listGroups(groupLevel)).map(withLevel)
    const gone = found.filter((id) => !kept.has(id))
    if (gone.length > 0) await removeEmptyGroups(this.#pool.path, gone)
  }

  async #figures(
    guests: readonly string[],
    read: (group: string) => Promise<number | undefined>,
  ): Promise<Map<string, number>> {
    if (this.#pool.quota === 'classic' && guests.some((guest) => !this.#subvolumeIds.has(guest))) await this.#readIds()
    const figures = new Map<string, number>()
    await Promise.all(
      guests.map(async (guest) => {
        const name = this.#nameOf(guest)
        const figure = name === undefined ? undefined : await read(name)
        if (figure !== undefined) figures.set(guest, figure)
        else this.forget(guest) // the volume was removed or replaced, so the next call must read the id of the new volume
      }),
    )
    return figures
  }

  /** Name of the guest's quota group in sysfs and btrfs(8): `LEVEL/ID`. */
  #nameOf(guest: string): string | undefined {
    if (this.#pool.quota === 'simple') return `${groupLevel}/${lowBitsOf(guest)}`
    const id = this.#subvolumeIds.get(guest)
    return id === undefined ? undefined : `0/${id}`
  }

  async #readIds(): Promise<void> {
    const subvolumes = await listSubvolumes(this.#pool.path)
    this.#subvolumeIds.clear()
    for (const { id, path } of subvolumes) {
      const guest = volumePath.exec(path)?.[1]
      if (guest) this.#subvolumeIds.set(guest, id)
    }
  }
}

/** Returns the low bits of the group's id: the first 48 bits of the guest's uuid, which are random. */
function lowBitsOf(guest: string): bigint {
  return BigInt(`0x${guest.replaceAll('-', '').slice(0, 12)}`)
}

const withLevel = (low: bigint): bigint => (BigInt(groupLevel) << levelShift) | low
const groupIdOf = (guest: string): bigint => withLevel(lowBitsOf(guest))
