import { constants } from 'node:fs'
import { copyFile, lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import { uploadPattern } from '../../../shared/image-rules.js'
import { hashFile } from './download.js'

export interface UploadedOrder {
  readonly url: string
  readonly sha256: string
  readonly maxBytes: number
  /** Path of the copy to create. */
  readonly file: string
}

/** Returns the file name in an `upload:` URL; undefined for other URLs. */
export function findUploaded(url: string): string | undefined {
  return new RegExp(uploadPattern).exec(url)?.[1]
}

/**
 * Copies a file from the directory to which administrators copy image files, and checks it.
 * @throws {BerthError} `upload_missing`, `download_too_large`, `checksum_mismatch`; the signal's reason when aborted
 */
export async function takeUploaded(
  directory: string,
  { url, sha256, maxBytes, file }: UploadedOrder,
  signal: AbortSignal,
): Promise<void> {
  const name = findUploaded(url)
  const path = join(directory, name ?? '')
  const found = name === undefined ? undefined : await lstat(path).catch(() => undefined)
  if (!found?.isFile())
    throw new BerthError('unavailable', 'upload_missing', `the file ${name} does not exist in ${directory} of the host`)
  if (found.size > maxBytes)
    throw new BerthError('exhausted', 'download_too_large', `the file is larger than ${maxBytes} bytes`)
  await copyFile(path, file, constants.COPYFILE_FICLONE)
  signal.throwIfAborted()
  const has = await hashFile(file)
  if (has !== sha256.toLowerCase())
    throw new BerthError('unavailable', 'checksum_mismatch', `the SHA-256 of the file is ${has}, not ${sha256}`)
}
