import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'

/**
 * Opens a regular file in a volume. The volume may come from anybody's backup, in which a link or a device could lead
 * to files of the host.
 * @throws {Error} also if the path is not a regular file with exactly one link
 */
export async function openPlain(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const found = await file.stat()
  if (found.isFile() && found.nlink === 1) return file
  await file.close()
  throw new Error(`${path} is not a plain file`)
}

/** Reads a file of a volume. @returns undefined if it is not a regular file, or larger than `mostBytes` */
export async function readPlainText(path: string, mostBytes: number): Promise<string | undefined> {
  const file = await openPlain(path, constants.O_RDONLY).catch(() => undefined)
  try {
    const size = (await file?.stat())?.size ?? 0
    return file && size <= mostBytes ? await file.readFile('utf8') : undefined
  } finally {
    await file?.close()
  }
}
