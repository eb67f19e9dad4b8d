import { listDisks, setScheduler, type Disk } from '../../host/disk/block-queue.js'

/** The only scheduler that shares a disk's time by group, so by guest. */
const fair = 'bfq'

/**
 * Sets the scheduler of the pool's disk if it is a loop device on `ownFile`. Any other disk is the operator's, who gets
 * a warning.
 * @param numbers `major:minor` of the whole disk; undefined where the pool is on no single one
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

/** Leaves another loop device alone: the disk below it would matter, and is unknown here. */
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
    `the pool's disk (${numbers}) has the scheduler ${scheduler}, which does not share it among guests: one that ` +
    'writes all the time slows the others down unless it has I/O limits; bfq shares it'
  )
}
