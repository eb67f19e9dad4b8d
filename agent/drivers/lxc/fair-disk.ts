import { findQueue, setScheduler } from '../../host/block-queue.js'

/** The one scheduler that gives each group, so each guest, its share of a disk's time. */
const fair = 'bfq'
const loopMajor = '7'

/**
 * Has guests share the disk of the pool. A loop device is the agent's own; another disk is the operator's, who is told.
 * @param numbers `major:minor` of the whole disk; undefined where there is no single one
 * @returns what the operator should know
 */
export function ensureFairDisk(numbers: string | undefined): string[] {
  const queue = numbers === undefined ? undefined : findQueue(numbers)
  if (numbers === undefined || !queue || queue.scheduler === fair) return []
  if (numbers.split(':')[0] !== loopMajor) return [describeUnfair(numbers, queue.scheduler)]
  if (!queue.available.includes(fair)) return [describeUnfair(numbers, queue.scheduler)]
  setScheduler(numbers, fair)
  return []
}

function describeUnfair(numbers: string, scheduler: string): string {
  return (
    `the pool's disk (${numbers}) has the scheduler ${scheduler}, which does not share it among guests: one that ` +
    'writes all the time slows the others down unless it has I/O limits; bfq shares it'
  )
}
