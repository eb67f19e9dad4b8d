import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { countedDiskGb, type Allocation } from '../../shared/allocation.js'
import { reportedStatus, type GuestCounts, type GuestStatusName } from './guest-status.js'

/** Totals of the guests of one host, updated with every change. */
export class HostTotals {
  readonly #byStatus = new Map<GuestStatusName, number>()
  #total = 0
  readonly #allocated = { vcpuMilli: 0, ramMb: 0, diskGb: 0 }

  get allocated(): Allocation {
    return this.#allocated
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

  #change({ status, limits, snapshotSpaceUsedBytes }: Guest, by: 1 | -1): void {
    const name = reportedStatus(status)
    const count = (this.#byStatus.get(name) ?? 0) + by
    if (count === 0) this.#byStatus.delete(name)
    else this.#byStatus.set(name, count)
    this.#total += by
    this.#allocated.vcpuMilli += by * (limits?.vcpuMilli ?? 0)
    this.#allocated.ramMb += by * (limits?.ramMb ?? 0)
    this.#allocated.diskGb += by * countedDiskGb(limits?.diskGb ?? 0, snapshotSpaceUsedBytes)
  }
}
