import {
  addAllocation,
  countedDiskGb,
  findExceeded,
  noAllocation,
  type Allocation,
  type Ratios,
} from '../../../shared/allocation.js'
import { BerthError } from '../../../shared/errors.js'
import type { PoolCapacity } from '../../storage/pool.js'
import { CopyJournal, type StandbyCopy } from '../record/copy-journal.js'
import type { GuestStore } from '../record/guest-store.js'
import type { GuestRecord } from '../record/record.js'
import { planRetained } from '../snapshots/plan-snapshot-space.js'
import type { ProcessorsAndMemory } from '../resources/capacity.js'

const gib = 1024 ** 3

type AllocatedGuest = Pick<GuestRecord, 'spec' | 'snapshotSpace' | 'snapshots' | 'ownership'>

/** The guests of this host, and its copies of standbys, which take only disk space. */
export interface PresentGuests {
  readonly guests: readonly AllocatedGuest[]
  readonly copies: readonly Pick<StandbyCopy, 'uuid' | 'diskGb'>[]
}

export interface AllocationBounds {
  readonly capacity: ProcessorsAndMemory
  readonly disk: PoolCapacity
  /** Undefined: the sum of all guests' limits is not checked. */
  readonly overcommit: Ratios | undefined
}

/**
 * Checks that the limits of all guests and of a new one stay within the overcommitment. Runs in the transaction that
 * inserts the new guest, so that no other guest can get the same resources.
 * @throws {BerthError} `resource_exhausted`
 */
export function checkAllocation(
  { guests, copies }: PresentGuests,
  wanted: Allocation,
  { capacity, disk, overcommit }: AllocationBounds,
): void {
  if (!overcommit) return
  const size = { ...capacity, diskTotalGb: Math.floor(disk.totalBytes / gib) }
  const copied = { ...noAllocation, diskGb: sumCopies(copies) }
  const allocated = addAllocation(planAllocated(guests), copied)
  const exceeded = findExceeded(addAllocation(allocated, wanted), size, overcommit)
  if (exceeded === undefined) return
  const { field, what } = resources[exceeded]
  const message = `the host does not have enough unallocated ${what} for the container`
  throw new BerthError('exhausted', 'resource_exhausted', message, { field })
}

export function sumCopies(copies: PresentGuests['copies']): number {
  return copies.reduce((sum, { diskGb }) => sum + diskGb, 0)
}

/** Returns what is on this host, except the copy of the guest `uuid`, which is about to come here. */
export function listPresent(store: GuestStore, uuid: string): PresentGuests {
  const copies = new CopyJournal(store.changes.db).list().filter((copy) => copy.uuid !== uuid)
  return { guests: store.list(), copies }
}

const resources = {
  cpu: { field: 'vcpu', what: 'processor time' },
  ram: { field: 'ram_mb', what: 'memory' },
  disk: { field: 'disk_gb', what: 'disk space' },
} as const

/** Sums the limits of all guests that are on this host or arriving. Copies of guests that moved away do not count. */
function planAllocated(guests: readonly AllocatedGuest[]): Allocation {
  return guests.filter(({ ownership }) => ownership.role !== 'fenced').reduce(addGuest, noAllocation)
}

function addGuest(sum: Allocation, guest: AllocatedGuest): Allocation {
  const { vcpuMilli, ramMb, diskGb } = guest.spec.limits
  return addAllocation(sum, { vcpuMilli, ramMb, diskGb: countedDiskGb(diskGb, planRetained(guest)) })
}
