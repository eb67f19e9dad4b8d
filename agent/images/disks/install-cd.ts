import { constants } from 'node:fs'
import { chmod, copyFile, open } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import type { InstallParts } from '../install.js'
import { makeImage, type BuildContext } from '../publish.js'

/** Path of the CD's file in an image's directory. */
export const cdOf = (image: string): string => join(image, 'cd.iso')

/** Offset in bytes of the name in a CD's first volume descriptor. The name is the second byte of sector 16. */
const nameAt = 32_769
const names = ['CD001', 'BEA01']

/**
 * Creates the image of a CD from an untrusted file. Checks only a volume descriptor, because the host never reads more.
 * @throws {BerthError} `image_invalid`, `image_too_large`, `storage_full`; the signal's reason when aborted
 */
export async function installCd(
  parts: InstallParts,
  { id, archive }: { readonly id: string; readonly archive: string },
  making: BuildContext,
): Promise<void> {
  making.report(0.75, 'copying')
  await checkCd(archive, await parts.readBound())
  await makeImage(parts, id, making, async (work) => {
    await copyFile(archive, cdOf(work), constants.COPYFILE_FICLONE) // a reflink needs no space: both files are in the pool
    await chmod(cdOf(work), 0o600)
  })
}

/** Checks that the file is a CD. @throws {BerthError} `image_invalid`, `image_too_large` */
export async function checkCd(file: string, mostBytes: number): Promise<void> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(5), 0, 5, nameAt)
    if (!names.includes(buffer.toString('latin1', 0, bytesRead)))
      throw new BerthError('invalid', 'image_invalid', 'not a CD image: neither ISO 9660 nor UDF')
    const { size } = await handle.stat()
    if (size > mostBytes)
      throw new BerthError('exhausted', 'image_too_large', `the CD is larger than ${mostBytes} bytes`)
  } finally {
    await handle.close()
  }
}
