import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'

/**
 * Opens a regular file in a volume. A volume from somebody's backup could contain a link or a device that leads to
 * files of the host.
 */
export async function openPlain(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const found = await file.stat()
  if (found.isFile() && found.nlink === 1) return file
  await file.close()
  throw new Error(`${path} is not a plain file`)
}

/** Reads a file of a volume. @returns undefined if it is not a plain file, or larger than `mostBytes` */
export async function readPlainText(path: string, mostBytes: number): Promise<string | undefined> {
  const file = await openPlain(path, constants.O_RDONLY).catch(() => undefined)
  try {
    const size = (await file?.stat())?.size ?? 0
    return file && size <= mostBytes ? await file.readFile('utf8') : undefined
  } finally {
    await file?.close()
  }
}
