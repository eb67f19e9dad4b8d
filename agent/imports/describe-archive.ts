import type { DescribeArchiveRequest, DescribeArchiveResponse } from '../../proto/gen/berth/agent/v1/archive.js'
import { Semaphore } from '../../shared/async/semaphore.js'
import { invalidField } from '../../shared/errors.js'
import type { ArchiveReader } from './contract.js'
import { planArchive } from './plan-archive.js'

/** Maximum number of manifests that are read at the same time. */
const mostReads = 2
const longestHead = 512 * 1024

export type DescribeArchive = (request: DescribeArchiveRequest, signal: AbortSignal) => Promise<DescribeArchiveResponse>

/**
 * Returns a function that plans the guest of an archive which a gateway will send, and changes nothing.
 * @throws {BerthError} `invalid_field`; like `planArchive`; the signal's reason when aborted
 */
export function createDescribeArchive(archives: Pick<ArchiveReader, 'readManifest'>): DescribeArchive {
  const reads = new Semaphore(mostReads)
  return async (request, signal) => {
    const { head } = request
    if (head.length > longestHead) throw invalidField('head', `head: must be at most ${longestHead} bytes`)
    return planArchive(await reads.run(() => archives.readManifest(head, signal), signal), request)
  }
}
