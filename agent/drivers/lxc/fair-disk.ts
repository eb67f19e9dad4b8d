import { listDisks, setScheduler, type Disk } from '../../host/block-queue.js'

/** The one scheduler that gives each group, so each guest, its share of a disk's time. */
const fair = 'bfq'

/**
 * Has guests share the disk of the pool. A loop device on `ownFile` is the agent's own; another disk is the operator's,
 * who is told.
 * @param numbers `major:minor` of the whole disk; undefined where there is no single one
 * @returns what the operator should know
 */
export function ensureFairDisk(numbers: string | undefined, ownFile: string): string[] {
  const disks = numbers === undefined ? [] : listDisks(numbers)
  return disks.flatMap((disk) => {
    const plan = planFairDisk(disk, ownFile)
    if (plan === 'leave' || (plan === 'set' && setScheduler(disk, fair))) return []
    return [describeUnfair(disk)]
  })
}

/** Somebody else's loop device is left alone: the disk below it is what counts, and not known here. */
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
