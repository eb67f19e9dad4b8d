import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { countedDiskGb, noAllocation, type Allocation } from '../../shared/allocation.js'
import { reportedStatus, type GuestCounts, type GuestStatusName } from './guest-status.js'

/** Limits of guests, and the number of guests that have exactly these limits. */
export interface GuestSize {
  readonly limits: Allocation
  readonly guests: number
}

/** Finds the most common size over all hosts. Among equally common sizes, returns the smallest. */
export function planCommonSize(sizes: readonly GuestSize[]): GuestSize | undefined {
  const sums = new Map<string, GuestSize>()
  for (const { limits, guests } of sizes) {
    const key = Object.values(limits).join('/')
    sums.set(key, { limits, guests: guests + (sums.get(key)?.guests ?? 0) })
  }
  const order = (a: GuestSize, b: GuestSize) => b.guests - a.guests || a.limits.ramMb - b.limits.ramMb
  return [...sums.values()].toSorted(order)[0]
}

/** Totals of the guests of one host, updated with every change. */
export class HostTotals {
  readonly #byStatus = new Map<GuestStatusName, number>()
  readonly #sizes = new Map<string, GuestSize>()
  #total = 0
  readonly #allocated = { ...noAllocation }

  get allocated(): Allocation {
    return this.#allocated
  }

  get sizes(): Iterable<GuestSize> {
    return this.#sizes.values()
  }

  /** Counts guests by status. @param online false: all guests count as `unknown` */
  counts(online: boolean): GuestCounts {
    if (online) return { total: this.#total, byStatus: this.#byStatus }
    return { total: this.#total, byStatus: new Map([['unknown', this.#total]]) }
  }

  add(guest: Guest): void {
    this.#change(guest, 1)
  }

  remove(guest: Guest): void {
    this.#change(guest, -1)
  }

  #change(guest: Guest, by: 1 | -1): void {
    const { limits, snapshotSpaceUsedBytes } = guest
    const name = reportedStatus(guest)
    const count = (this.#byStatus.get(name) ?? 0) + by
    if (count === 0) this.#byStatus.delete(name)
    else this.#byStatus.set(name, count)
    this.#total += by
    this.#countSize(limits, by)
    this.#allocated.vcpuMilli += by * (limits?.vcpuMilli ?? 0)
    this.#allocated.ramMb += by * (limits?.ramMb ?? 0)
    this.#allocated.diskGb += by * countedDiskGb(limits?.diskGb ?? 0, snapshotSpaceUsedBytes)
  }

  #countSize({ vcpuMilli, ramMb, diskGb }: Allocation = noAllocation, by: 1 | -1): void {
    const key = `${vcpuMilli}/${ramMb}/${diskGb}`
    const guests = (this.#sizes.get(key)?.guests ?? 0) + by
    if (guests === 0) this.#sizes.delete(key)
    else this.#sizes.set(key, { limits: { vcpuMilli, ramMb, diskGb }, guests })
  }
}
