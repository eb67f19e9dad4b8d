import { createHash } from 'node:crypto'
import { lookup as systemLookup } from 'node:dns'
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { BerthError } from '../../../shared/errors.js'
import { checkedLookup, readOwnAddresses } from '../../../shared/outbound-lookup.js'
import { OutboundClient } from '../../../shared/outbound-request.js'
import type { TargetPolicy } from '../../../shared/outbound-targets.js'
import { noteOf, Transfer, type DownloadOrder, type Report } from './transfer.js'

export interface DownloadParts {
  readonly policy: TargetPolicy
  /** Resolves names. Default: the host's resolver. */
  readonly lookup?: typeof systemLookup
  /** Called before each connection; returns this host's addresses. Default: the addresses of its interfaces. */
  readonly readOwn?: () => readonly string[]
  /** Pause in ms before the first retry. Each further failure in a row doubles the pause. */
  readonly pauseMs?: number
  /** Period in ms in which at least 64 KiB must arrive. Default: one minute. */
  readonly patienceMs?: number
}

const timeouts = { connectMs: 20_000, headersMs: 30_000, bodyMs: 30_000 }

/**
 * Downloads a file and checks its checksum. Resumes after a broken connection, and after a restart of the agent.
 * @returns the SHA-256 of the file in hexadecimal
 * @throws {BerthError} `invalid_field` (a forbidden target in the URL or a redirect), `download_failed`,
 * `download_too_large`, `checksum_mismatch`, `storage_full`; the signal's reason when aborted
 */
export async function download(
  order: DownloadOrder,
  { policy, lookup = systemLookup, readOwn = readOwnAddresses, pauseMs = 500, patienceMs = 60_000 }: DownloadParts,
  report: Report,
  signal: AbortSignal,
): Promise<string> {
  const client = new OutboundClient({ timeouts, lookup: checkedLookup(policy, lookup, readOwn) })
  const transfer = new Transfer(order, { policy, readOwn, pauseMs, patienceMs, client, report, signal })
  try {
    const resumed = await transfer.complete()
    return await verified(order, async () => {
      if (!resumed) return false
      await discardDownload(order.file) // data of an earlier download can belong to another version of the file
      await transfer.complete()
      return true
    })
  } finally {
    client.close()
  }
}

/** Removes a completely or partially downloaded file, and the note next to it that identifies its version. */
export async function discardDownload(file: string): Promise<void> {
  await rm(file, { force: true })
  await rm(noteOf(file), { force: true })
}

async function verified(order: DownloadOrder, again: () => Promise<boolean>): Promise<string> {
  const found = await hashFile(order.file)
  if (order.sha256 === '' || found === order.sha256.toLowerCase()) return found
  if (await again()) return verified(order, async () => false)
  await discardDownload(order.file)
  throw new BerthError(
    'unavailable',
    'checksum_mismatch',
    `the SHA-256 of the downloaded file is ${found}, not ${order.sha256}`,
  )
}

/** Returns the SHA-256 of a file in hexadecimal. */
export async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash)
  return hash.digest('hex')
}
