import type { IncomingHttpHeaders } from 'node:http'
import { conflict, type BerthError } from '../../shared/errors.js'
import type { Fleet } from '../fleet/contract.js'
import { etagOf } from './reply.js'

/*
 * ETags of a container and its parts begin with the container's revision. The agent checks If-Match, because only the
 * agent knows the current revision.
 */

/** Strong ETag of a body that shows a container at this revision. */
export function revisionEtag(revision: number, body: Buffer | string): string {
  return `"${revision}.${etagOf(body).slice(1)}`
}

/**
 * Revision that If-Match requires. 0: any revision. If there are several tags, the highest counts, because revisions
 * only increase. Only the revision in a tag is compared, because proxies that compress answers change the tag.
 * @throws {BerthError} `precondition_failed` for tags without a revision
 */
export function ifRevisionOf(headers: IncomingHttpHeaders): number {
  const header = headers['if-match']?.trim() ?? '*'
  if (header === '*') return 0
  const revisions = header.split(',').map((tag) => /^\s*(?:W\/)?"(\d{1,15})\.[\w-]+"\s*$/.exec(tag)?.[1] ?? '0')
  const newest = Math.max(...revisions.map(Number))
  if (newest === 0) throw overtaken()
  return newest
}

/**
 * Checks If-Match of a request for a queued operation. First waits until the fleet view has the revision of the ETag.
 * Does not check a repeated request, because its first attempt can have changed the revision.
 * @throws {BerthError} `precondition_failed`
 */
export async function checkIfMatch(
  fleet: Pick<Fleet, 'view' | 'reached'>,
  uuid: string,
  { headers, operationId }: { readonly headers: IncomingHttpHeaders; readonly operationId: string },
): Promise<void> {
  const wanted = ifRevisionOf(headers)
  if (wanted === 0 || fleet.view.findOperation(operationId)) return
  const find = () => fleet.view.findGuest(uuid)
  const seen = find()
  if (seen && seen.guest.revision < wanted) await fleet.reached(seen.hostId, wanted)
  if (find()?.guest.revision !== wanted) throw overtaken()
}

function overtaken(): BerthError {
  return conflict('precondition_failed', 'If-Match: the container was changed in the meantime')
}
