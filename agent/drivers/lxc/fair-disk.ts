import { listDisks, setScheduler, type Disk } from '../../host/disk/block-queue.js'

/** The only I/O scheduler that shares a disk's time among cgroups, and therefore among guests. */
const fair = 'bfq'

/**
 * Sets the scheduler of the pool's disk if it is a loop device on `ownFile`. Any other disk belongs to the operator,
 * who gets a warning.
 * @param numbers `major:minor` of the whole disk; undefined if the pool is not on exactly one disk
 * @returns warnings for the operator
 */
export function ensureFairDisk(numbers: string | undefined, ownFile: string): string[] {
  const disks = numbers === undefined ? [] : listDisks(numbers)
  return disks.flatMap((disk) => {
    const plan = planFairDisk(disk, ownFile)
    if (plan === 'leave' || (plan === 'set' && setScheduler(disk, fair))) return []
    return [describeUnfair(disk)]
  })
}

/**
 * Decides whether the agent sets the disk's scheduler, or advises the operator to do so. Stacked devices and other
 * programs' loop devices keep their scheduler, because only the scheduler of the disk below them matters.
 */
export function planFairDisk(
  { scheduler, path, backingFile }: Pick<Disk, 'scheduler' | 'path' | 'backingFile'>,
  ownFile: string,
): 'leave' | 'set' | 'advise' {
  if (scheduler === undefined || scheduler === fair) return 'leave'
  if (backingFile === ownFile) return 'set'
  return /\/(loop|dm-|md)\d+$/.test(path) ? 'leave' : 'advise'
}

function describeUnfair({ numbers, scheduler }: Disk): string {
  return (
    `the disk of the storage pool (${numbers}) has the I/O scheduler ${scheduler}, which does not share the disk fairly: ` +
    'a guest without I/O limits that writes all the time slows the other guests down; the scheduler bfq shares the disk'
  )
}
