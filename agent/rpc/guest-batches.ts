import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { GuestBatch } from '../../proto/gen/berth/agent/v1/watch.js'

/** A batch is sent as soon as it has this many bytes. A gateway accepts messages of 1 MiB. */
const batchBytes = 64 * 1024

/** Encodes guests in batches, because one message per guest would delay the start of a gateway. */
export function* encodeGuestBatches(guests: Iterable<Guest>): Generator<GuestBatch> {
  let batch: Buffer[] = []
  let bytes = 0
  for (const guest of guests) {
    const encoded = Buffer.from(Guest.encode(guest).finish())
    batch.push(encoded)
    bytes += encoded.length
    if (bytes < batchBytes) continue
    yield { guests: batch }
    batch = []
    bytes = 0
  }
  if (batch.length > 0) yield { guests: batch }
}
