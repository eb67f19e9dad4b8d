import { listSubvolumes } from '../host/btrfs.js'
import { joinGroup, removeEmptyGroups, setLimit, type BoundedGroup } from '../host/btrfs-ioctl.js'
import type { Pool } from './pool.js'

/** No other program uses it: groups of level 1 and above are for whoever makes them. */
const groupLevel = 190
const levelShift = 48n
const volumePath = /(?:^|\/)guests\/([0-9a-f-]{36})$/

/**
 * What counts for a guest's bound (docs/decisions/0130). With simple quotas a group of the guest's own, in which
 * everything is that its volume ever wrote and that anything still holds: the volume, its snapshots, one it was
 * restored from. With classic ones what the volume references.
 */
export class Bounds {
  readonly #pool: Pool
  /** Classic quotas: of the subvolume that now is the guest's volume. */
  readonly #subvolumeIds = new Map<string, number>()

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** What a new subvolume of the guest becomes a member of; undefined with classic quotas. */
  findGroup(guest: string, limitBytes?: number): BoundedGroup | undefined {
    if (this.#pool.quota === 'classic') return undefined
    const id = groupIdOf(guest)
    return limitBytes === undefined ? { id } : { id, limitBytes }
  }

  /** @param path of the guest's volume @param limitBytes 0: not bounded */
  async set(guest: string, path: string, limitBytes: number): Promise<void> {
    const group = this.findGroup(guest, limitBytes)
    await (group ? joinGroup(path, group) : setLimit(path, limitBytes))
  }

  /** Bytes that count for each guest's bound, of those that have one. */
  async usage(guests: readonly string[]): Promise<Map<string, number>> {
    return this.#figures(guests, (group) => this.#pool.view.referencedBytes(group))
  }

  /** 0: not bounded. */
  async limits(guests: readonly string[]): Promise<Map<string, number>> {
    return this.#figures(guests, (group) => this.#pool.view.limitBytes(group))
  }

  /** The guest's volume is another one now, or none. */
  forget(guest: string): void {
    this.#subvolumeIds.delete(guest)
  }

  /** Removes the groups of guests that are gone; those of which subvolumes are still being deleted, later. */
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
    if (this.#pool.quota === 'classic' && guests.some((guest) => !this.#subvolumeIds.has(guest)))
      await this.#readIds()
    const figures = new Map<string, number>()
    await Promise.all(
      guests.map(async (guest) => {
        const name = this.#nameOf(guest)
        const figure = name === undefined ? undefined : await read(name)
        if (figure !== undefined) figures.set(guest, figure)
        else this.forget(guest) // removed or made anew meanwhile: the next call looks again
      }),
    )
    return figures
  }

  /** As sysfs and btrfs(8) have it, `LEVEL/ID`. */
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

/** The first 48 bits of a uuid, all random: nothing has to be kept to find a guest's group again. */
function lowBitsOf(guest: string): bigint {
  return BigInt(`0x${guest.replaceAll('-', '').slice(0, 12)}`)
}

const withLevel = (low: bigint): bigint => (BigInt(groupLevel) << levelShift) | low
const groupIdOf = (guest: string): bigint => withLevel(lowBitsOf(guest))
