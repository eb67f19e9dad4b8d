import type { StageText } from '../../shared/task-stages.js'
import type { StepContext } from '../operations/types.js'
import { untilAborted } from '../../shared/async/until-aborted.js'
import { importTooSmall } from './import-errors.js'
import type { Upload } from './uploads.js'

const mib = 1024 * 1024

export interface ReceptionParts {
  readonly upload: Upload
  /** Unpacks the archive into the disk of the guest. */
  readonly unpack: (parts: AsyncIterable<Buffer>, signal: AbortSignal) => Promise<void>
  /** Size of the disk of the guest. An archive must not be longer. */
  readonly diskBytes: number
  readonly step: Pick<StepContext<unknown>, 'report' | 'signal'>
}

/**
 * Unpacks an archive while it is received, and reports the received bytes. The upload then still waits for
 * `Upload.complete`.
 * @throws {BerthError} `import_interrupted`, `disk_too_small`, `image_invalid`; the signal's reason when aborted
 */
export async function receiveArchive({ upload, unpack, diskBytes, step }: ReceptionParts): Promise<void> {
  const signal = AbortSignal.any([step.signal, upload.signal])
  let received = 0
  const count = (part: Buffer): void => {
    received += part.length
    if (received > diskBytes) throw importTooSmall()
    const share = shareOf(received, upload.order.bytes || diskBytes)
    step.report(share, describe(received, share, upload.order.bytes))
  }
  try {
    await unpack(counted(upload.take(), count, signal), signal)
  } catch (error) {
    upload.fail(error)
    throw error
  }
}

async function* counted(
  parts: AsyncIterable<Buffer>,
  count: (part: Buffer) => void,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const iterator = parts[Symbol.asyncIterator]()
  for (;;) {
    const part = await untilAborted(iterator.next(), signal)
    if (part.done) return
    count(part.value)
    yield part.value
  }
}

/** Returns the received share in steps of one percent, because each change of the progress is written to the journal. */
function shareOf(received: number, total: number): number {
  return Math.min(99, Math.floor((100 * received) / Math.max(total, 1))) / 100
}

/** Returns the progress as text, like `receiving: 50 % of 300 MiB`, or `receiving: 128 MiB` if the total is not known. */
function describe(received: number, share: number, total: number): StageText {
  if (total > 0) return `receiving: ${Math.round(100 * share)} % of ${Math.ceil(total / mib)} MiB`
  return `receiving: ${Math.floor(received / (16 * mib)) * 16} MiB`
}
